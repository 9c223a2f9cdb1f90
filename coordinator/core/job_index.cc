// SPDX-License-Identifier: Apache-2.0

// Each job has an entry with what the index knows of it, so that a change first removes exactly
// what the entry has added. Slots that were given or taken are noted for those who keep a view of
// them.

#include "coordinator/core/job_index.h"

#include <algorithm>

namespace stretto::coordinator {
namespace {

void Add(std::map<std::string, int64_t>* counts, const std::string& project, int64_t count) {
  if (count == 0) return;
  const auto found = counts->try_emplace(project).first;
  found->second += count;
  if (found->second == 0) counts->erase(found);
}

}  // namespace

std::string JobIndex::LaneOf(const Entry& entry) const {
  return quotas_.contains(entry.project) ? entry.project : "";
}

void JobIndex::Put(const JobRecord& job) {
  Remove(job.number);
  Entry entry{.kind = job.device_kind,
              .key = KeyOf(job),
              .project = job.project,
              .waits = job.state == JobState::kPending,
              .spec_bytes = static_cast<int64_t>(job.spec.size()),
              .end = job.end_time,
              .slots = {}};
  if (entry.waits) {
    std::vector<QueueKey>& queue = waiting_[entry.kind][LaneOf(entry)];
    queue.insert(std::upper_bound(queue.begin(), queue.end(), entry.key), entry.key);
    Add(&waiting_of_, entry.project, 1);
    ++waiting_in_all_;
    waiting_bytes_ += entry.spec_bytes;
  } else if (IsActive(job.state)) {
    for (const RankRecord& rank : job.ranks) {
      entry.slots.emplace_back(rank.worker, rank.slot);
      held_[rank.worker][rank.slot] = job.number;
      slot_changes_.emplace_back(RankSlot{rank.worker, rank.slot}, true);
    }
    active_[entry.kind].insert(entry.key);
    Add(&held_by_, entry.project, static_cast<int64_t>(entry.slots.size()));
  } else if (IsEnded(job.state)) {
    ended_.emplace(job.end_time.value_or(absl::InfinitePast()), job.number);
  }
  entries_.emplace(job.number, std::move(entry));
}

void JobIndex::Remove(int64_t number) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (entry.waits) {
    Lanes& lanes = waiting_[entry.kind];
    const auto lane = lanes.find(LaneOf(entry));
    std::vector<QueueKey>& queue = lane->second;
    queue.erase(std::lower_bound(queue.begin(), queue.end(), entry.key));
    if (queue.empty()) lanes.erase(lane);
    if (lanes.empty()) waiting_.erase(entry.kind);
    Add(&waiting_of_, entry.project, -1);
    --waiting_in_all_;
    waiting_bytes_ -= entry.spec_bytes;
  }
  if (!entry.slots.empty()) active_[entry.kind].erase(entry.key);
  Add(&held_by_, entry.project, -static_cast<int64_t>(entry.slots.size()));
  ended_.erase({entry.end.value_or(absl::InfinitePast()), number});
  for (const auto& [worker, slot] : entry.slots) {
    const auto held = held_.find(worker);
    if (held == held_.end()) continue;
    // The slot may already be another job's, if this event gave it away.
    const auto holder = held->second.find(slot);
    if (holder != held->second.end() && holder->second == number) {
      held->second.erase(holder);
      slot_changes_.emplace_back(RankSlot{worker, slot}, false);
    }
    if (held->second.empty()) held_.erase(held);
  }
  entries_.erase(found);
}

const Lanes& JobIndex::LanesOf(int32_t kind) const {
  static const Lanes kNone;
  const auto found = waiting_.find(kind);
  return found == waiting_.end() ? kNone : found->second;
}

int64_t JobIndex::WaitingBefore(int32_t kind, const QueueKey& key) const {
  const auto found = waiting_.find(kind);
  if (found == waiting_.end()) return 0;
  int64_t before = 0;
  for (const auto& [name, queue] : found->second) {
    before += std::lower_bound(queue.begin(), queue.end(), key) - queue.begin();
  }
  return before;
}

const std::set<QueueKey, std::greater<>>& JobIndex::ActiveOf(int32_t kind) const {
  static const std::set<QueueKey, std::greater<>> kNone;
  const auto found = active_.find(kind);
  return found == active_.end() ? kNone : found->second;
}

const std::map<int32_t, int64_t>& JobIndex::HeldOn(const std::string& worker) const {
  static const std::map<int32_t, int64_t> kNone;
  const auto held = held_.find(worker);
  return held == held_.end() ? kNone : held->second;
}

}  // namespace stretto::coordinator
