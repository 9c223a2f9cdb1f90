// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why jobs wait, computed when somebody asks. A stored condition of a waiting job says only that it
// waits: its place in the queue and what the job at its head lacks change with every event.

#include <cstdint>
#include <map>
#include <optional>
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

  // `number` is the job's place in the order of creation.
  Unplaced WhyWaiting(const QueuedJob& job, int64_t number);

  // Returns the slots by rank of a job behind all that wait; empty if it would wait too.
  std::vector<RankSlot> Try(const QueuedJob& job);

 private:
  Placer& placer();
  // The first job of the kind that could run; nothing if none waits.
  const std::optional<int64_t>& HeadOf(int32_t kind);

  const Core& core_;
  std::optional<Placer> placer_;
  std::map<int32_t, std::optional<int64_t>> heads_;  // numbers, by kind
};

}  // namespace stretto::coordinator
