// SPDX-License-Identifier: Apache-2.0
#pragma once
// The newest NVML reading of this node's GPUs, for callers that must not wait for a driver: a
// reading takes milliseconds, or forever if a bad GPU hangs its driver.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "worker/daemon/nvml.h"

namespace stretto::daemon {

// Opens the library of that path. Returns null if there are no GPUs; the log has the reason.
std::unique_ptr<Nvml> OpenGpus(const std::string& library);

// Thread-safe. Reads on its own thread, and only when asked, so no timer is needed.
class GpuWatch {
 public:
  // Waits for a first reading. `nvml` may be null: no GPUs. It is shared with the thread, which a
  // hanging driver may keep beyond this object's lifetime. `clock` is borrowed and must outlive
  // this.
  GpuWatch(std::shared_ptr<Nvml> nvml, const Clock& clock);
  // Waits up to kGrace, in real time, for a reading in progress. Then it abandons the thread to the
  // driver that blocks it; the thread touches nothing of ours when it returns.
  ~GpuWatch();

  // Returns the newest reading immediately, and starts another if it is older than kInterval. If a
  // reading has been in progress for kPatience, every GPU has that as its fault.
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
    bool ended GUARDED_BY(mu) = false;  // the thread has finished
  };
  static void Run(const std::shared_ptr<State>& state);

  const Clock& clock_;
  const std::shared_ptr<State> state_;  // shared with the thread
  // When the newest reading, or the one in progress, began.
  absl::Duration read_at_ GUARDED_BY(state_->mu);
  std::thread thread_;
};

}  // namespace stretto::daemon
