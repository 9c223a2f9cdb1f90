// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/job_index.h"

#include <algorithm>

namespace stretto::coordinator {

void JobIndex::Put(const JobRecord& job) {
  Remove(job.number);
  Entry entry{.kind = job.device_kind,
              .waits = job.state == JobState::kPending,
              .end = job.end_time,
              .slots = {}};
  if (entry.waits) {
    std::vector<int64_t>& queue = waiting_[entry.kind];
    queue.insert(std::upper_bound(queue.begin(), queue.end(), job.number), job.number);
  } else if (IsActive(job.state)) {
    for (const RankRecord& rank : job.ranks) {
      entry.slots.emplace_back(rank.worker, rank.slot);
      held_[rank.worker][rank.slot] = job.number;
    }
  } else if (IsEnded(job.state)) {
    ended_.emplace(job.end_time.value_or(absl::InfinitePast()), job.number);
  }
  entries_.emplace(job.number, std::move(entry));
}

void JobIndex::Remove(int64_t number) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  if (found->second.waits) {
    const auto queue = waiting_.find(found->second.kind);
    queue->second.erase(std::lower_bound(queue->second.begin(), queue->second.end(), number));
    if (queue->second.empty()) waiting_.erase(queue);
  }
  ended_.erase({found->second.end.value_or(absl::InfinitePast()), number});
  for (const auto& [worker, slot] : found->second.slots) {
    const auto held = held_.find(worker);
    if (held == held_.end()) continue;
    // The slot may already be another job's, if this event gave it away.
    const auto holder = held->second.find(slot);
    if (holder != held->second.end() && holder->second == number) held->second.erase(holder);
    if (held->second.empty()) held_.erase(held);
  }
  entries_.erase(found);
}

const std::map<int32_t, int64_t>& JobIndex::HeldOn(const std::string& worker) const {
  static const std::map<int32_t, int64_t> kNone;
  const auto held = held_.find(worker);
  return held == held_.end() ? kNone : held->second;
}

}  // namespace stretto::coordinator
