// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this process lost to other programs on its machine: time in which a thread was ready to run
// and had no CPU. Such time looks like computation, or like a wait for the rank that lost it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stretto::trainer {

struct Preempted {
  // Of the thread that waited longest, so no more than the time that passed; nothing if the kernel
  // does not say.
  std::optional<double> seconds;
  int64_t switches = 0;  // how often any thread was made to leave its CPU
};

// Not thread-safe.
class PreemptionMeter {
 public:
  // `tasks` has a folder for each thread, with its schedstat.
  explicit PreemptionMeter(std::string tasks = "/proc/self/task");

  // Returns what was lost since the call before, at first since construction. Takes some ten
  // microseconds per thread.
  Preempted Take();

 private:
  const std::string tasks_;
  std::map<std::string, int64_t> delays_;  // by thread: nanoseconds since its start
  int64_t switches_ = 0;
};

}  // namespace stretto::trainer
