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
  // The jobs of a project that wait, in the order of the queue, with the devices that they and
  // those ahead of them claim.
  using Claims = std::vector<std::pair<QueueKey, int64_t>>;
  struct Heads {
    std::map<int32_t, const JobRecord*> first;  // by kind: the first job that could run
    std::map<std::string, Claims> claims;       // by project with a limit of devices
    std::map<std::string, const JobRecord*>
        held_up;  // by project: the first that its quota holds up
    int64_t ClaimedBefore(const std::string& project, const QueueKey& key) const;
  };
  const Heads& FindHeads();
  // Nothing if the quota of its project has devices for the job.
  std::optional<Unplaced> WhyOverQuota(const JobRecord& job, const Heads& heads) const;

  const Core& core_;
  std::optional<Heads> heads_;
};

}  // namespace stretto::coordinator
