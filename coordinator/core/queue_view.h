// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why jobs wait, computed when somebody asks. A stored condition of a waiting job says only that it
// waits: its place in the queue and what the job at its head lacks change with every event.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/core.h"

namespace stretto::coordinator {

// Borrows the core, which must not change meanwhile. The first question costs as much as a look at
// every worker, each further one no more than a look-up.
class QueueView {
 public:
  explicit QueueView(const Core& core) : core_(core) {}

  // Returns the job as people see it: if it waits, condition Scheduled has the reason and the place
  // in the queue.
  JobRecord Shown(const JobRecord& job);

  // The job need not exist.
  Unplaced WhyWaiting(const JobRecord& job);

 private:
  // The first job of a queue that could run, and of each project with a quota the first one that
  // its quota holds up.
  struct Heads {
    const JobRecord* first = nullptr;
    std::map<std::string, const JobRecord*> over_quota;  // by project
  };
  Placer& placer();
  const Heads& HeadsOf(int32_t kind);
  Unplaced WhyOverQuota(const JobRecord& job, const JobRecord& head) const;

  const Core& core_;
  std::optional<Placer> placer_;
  std::map<int32_t, Heads> heads_;  // by kind
};

}  // namespace stretto::coordinator
