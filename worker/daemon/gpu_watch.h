// SPDX-License-Identifier: Apache-2.0
#pragma once
// What NVML said last of this node's GPUs, for everybody who must not wait for a driver: a reading
// takes milliseconds, and for ever when a GPU is bad enough to take its driver along.

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "worker/daemon/nvml.h"

namespace stretto::daemon {

// Thread-safe. Reads on a thread of its own, and only when asked: whoever asks also keeps time.
class GpuWatch {
 public:
  // Reads once, and waits for that. `nvml` may be null: no GPUs. It is shared with the thread,
  // which a driver that hangs may keep beyond this. `clock` is borrowed and outlives this.
  GpuWatch(std::shared_ptr<Nvml> nvml, const Clock& clock);
  // Waits for a reading under way, up to kGrace of the machine's own time; then the thread is left
  // to the driver that holds it, and touches nothing of ours when it comes back.
  ~GpuWatch();

  // The newest reading, at once. Starts another if this one is older than kInterval. While a
  // reading has been under way for kPatience, every GPU has that as its fault.
  std::vector<Gpu> Gpus();

  static constexpr absl::Duration kInterval = absl::Seconds(5);
  static constexpr absl::Duration kPatience = absl::Seconds(30);
  static constexpr absl::Duration kGrace = absl::Milliseconds(500);

 private:
  struct State {
    std::shared_ptr<Nvml> nvml;
    Mutex mu;
    CondVar changed;
    std::vector<Gpu> gpus GUARDED_BY(mu);
    bool reading GUARDED_BY(mu) = false;
    bool stop GUARDED_BY(mu) = false;
    bool ended GUARDED_BY(mu) = false;  // the thread does nothing any more
  };
  static void Run(const std::shared_ptr<State>& state);

  const Clock& clock_;
  const std::shared_ptr<State> state_;  // shared with the thread
  // When the newest reading, or the one under way, began.
  absl::Duration read_at_ GUARDED_BY(state_->mu);
  std::thread thread_;
};

}  // namespace stretto::daemon
