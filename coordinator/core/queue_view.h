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
  // Of a project with a quota: its jobs that wait, up to the first one that the quota holds up.
  struct Line {
    // In the order of the queue, with the devices that they and those ahead of them claim.
    std::vector<std::pair<QueueKey, int64_t>> claims;
    const JobRecord* over_quota = nullptr;
    int64_t ClaimedBefore(const QueueKey& key) const;
  };
  // The first job of a queue that could run, and the lines.
  struct Heads {
    const JobRecord* first = nullptr;
    std::map<std::string, Line> lines;  // by project
  };
  const Heads& HeadsOf(int32_t kind);
  // Nothing if the quota of its project has devices for the job.
  std::optional<Unplaced> WhyOverQuota(const JobRecord& job, const Heads& heads) const;

  const Core& core_;
  std::map<int32_t, Heads> heads_;  // by kind
};

}  // namespace stretto::coordinator
