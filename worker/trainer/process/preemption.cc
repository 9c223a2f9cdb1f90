// SPDX-License-Identifier: Apache-2.0

// The kernel counts for each thread how long it waited in a run queue: the second number of its
// schedstat, in nanoseconds. A thread that has ended takes its count with it.

#include "worker/trainer/process/preemption.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;

std::map<std::string, int64_t> DelaysOf(const std::string& tasks) {
  std::map<std::string, int64_t> delays;
  std::error_code error;
  for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
    std::ifstream file(it->path() / "schedstat");
    int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) delays[it->path().filename().string()] = waited;
  }
  return delays;
}

int64_t Switches() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

PreemptionMeter::PreemptionMeter(std::string tasks)
    : tasks_(std::move(tasks)), delays_(DelaysOf(tasks_)), switches_(Switches()) {}

Preempted PreemptionMeter::Take() {
  std::map<std::string, int64_t> delays = DelaysOf(tasks_);
  Preempted lost;
  if (!delays.empty()) lost.seconds = 0;
  for (const auto& [thread, waited] : delays) {
    const auto before = delays_.find(thread);
    const int64_t since = waited - (before == delays_.end() ? 0 : before->second);
    // A thread may have the number of one that has ended.
    lost.seconds = std::max(*lost.seconds, static_cast<double>(std::max<int64_t>(since, 0)) * 1e-9);
  }
  delays_ = std::move(delays);
  const int64_t switches = Switches();
  lost.switches = switches - std::exchange(switches_, switches);
  return lost;
}

}  // namespace stretto::trainer
