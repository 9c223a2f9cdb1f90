#pragma once
// What NVML said last of this node's GPUs, for everybody who must not wait for a driver: a reading
// takes milliseconds, and for ever when a GPU is bad enough to take its driver along.

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "worker/daemon/nvml.h"

namespace stretto::daemon {

// Thread-safe. Reads on a thread of its own, and only when asked: whoever asks also keeps time.
class GpuWatch {
 public:
  // Reads once, and waits for that. `nvml` may be null: no GPUs. Both are borrowed and outlive
  // this.
  GpuWatch(Nvml* nvml, const Clock& clock);
  // Waits for a reading under way.
  ~GpuWatch();

  // The newest reading, at once. Starts another if this one is older than kInterval. While a
  // reading has been under way for kPatience, every GPU has that as its fault.
  std::vector<Gpu> Gpus();

  static constexpr absl::Duration kInterval = absl::Seconds(5);
  static constexpr absl::Duration kPatience = absl::Seconds(30);

 private:
  void Run();

  Nvml* const nvml_;
  const Clock& clock_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Gpu> gpus_;
  absl::Duration read_at_;  // when the newest reading, or the one under way, began
  bool reading_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace stretto::daemon
