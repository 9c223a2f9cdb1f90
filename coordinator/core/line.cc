// SPDX-License-Identifier: Apache-2.0

// The lanes of all kinds are merged by the key of their first job. A lane that nobody asks for
// stays only if its project has a limit of devices, because only then does it change anything for
// others.

#include "coordinator/core/line.h"

#include <algorithm>

namespace stretto::coordinator {

Core::Line::Line(const Core& core, std::optional<int32_t> kind) : core_(core) {
  for (const auto& [of, lanes] : core.index_.waiting()) {
    if (core.Slots().KnownSlots(of) == 0) continue;  // no job is possible
    for (const auto& [name, jobs] : lanes)
      lanes_.push_back({.kind = of, .name = &name, .next = jobs.data(), .left = jobs.size()});
    if (kind && *kind != of) Leave(of);
  }
}

void Core::Line::Leave(int32_t kind) {
  for (Lane& lane : lanes_) {
    if (lane.kind != kind) continue;
    lane.wanted = false;
    if (DevicesOf(core_.options_.quotas, *lane.name) == INT64_MAX) lane.left = 0;
  }
}

void Core::Line::CloseLane() { last_lane_->left = 0; }

Core::Line::Lane* Core::Line::First() {
  Lane* first = nullptr;
  bool wanted = false;
  for (Lane& lane : lanes_) {
    if (lane.left == 0) continue;
    wanted |= lane.wanted;
    if (first == nullptr || *lane.next < *first->next) first = &lane;
  }
  return wanted ? first : nullptr;
}

const JobRecord* Core::Line::Next(const QueueKey& end) {
  for (Lane* lane = First(); lane != nullptr && *lane->next < end; lane = First()) {
    const JobRecord& job = core_.JobOf(lane->next->number);
    ++lane->next;
    --lane->left;
    if (core_.BacksOff(job)) {
      next_due_ = std::min(next_due_, core_.jobs_.at(job.id).next_attempt);
      continue;
    }
    if (!core_.Slots().IsPossible(core_.Queued(job)) || core_.ExceedsQuota(job)) continue;
    if (!HasDevices(job)) {
      held_up_.emplace(job.project, &job);
      for (Lane& other : lanes_) {
        if (*other.name == *lane->name) other.left = 0;
      }
      continue;
    }
    if (DevicesOf(core_.options_.quotas, job.project) != INT64_MAX)
      claimed_[job.project] += core_.ClaimOf(job);
    if (!lane->wanted) continue;
    ++passed_;
    last_ = &job;
    last_lane_ = lane;
    return &job;
  }
  return nullptr;
}

void Core::Line::Starts() {
  const auto claimed = claimed_.find(last_->project);
  if (claimed != claimed_.end())
    claimed->second += core_.Queued(*last_).gang.ranks() - core_.ClaimOf(*last_);
}

int64_t Core::Line::ClaimedBy(const std::string& project) const {
  const auto found = claimed_.find(project);
  return found == claimed_.end() ? 0 : found->second;
}

bool Core::Line::HasDevices(const JobRecord& job) const {
  return !held_up_.contains(job.project) && !core_.IsOverQuota(job, ClaimedBy(job.project));
}

}  // namespace stretto::coordinator
