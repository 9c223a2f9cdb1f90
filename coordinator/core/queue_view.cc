// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::coordinator {

const QueueView::Heads& QueueView::HeadsOf(int32_t kind) {
  const auto [entry, added] = heads_.try_emplace(kind);
  Heads& heads = entry->second;
  const auto lanes = core_.index().waiting().find(kind);
  if (!added || lanes == core_.index().waiting().end()) return heads;
  QueueWalk walk(lanes->second);
  while (const std::optional<QueueKey> key = walk.Next()) {
    const JobRecord& job = core_.JobOf(key->number);
    if (core_.BacksOff(job) || !core_.Slots().IsPossible(core_.Queued(job)) ||
        core_.ExceedsQuota(job))
      continue;
    // A lane says nothing new behind a job that waits, unless the job claims devices of a quota. The
    // lane of projects without one is the longest.
    if (DevicesOf(core_.options().quotas, job.project) == INT64_MAX) {
      if (heads.first == nullptr) heads.first = &job;
      walk.CloseLane();
      continue;
    }
    Line& line = heads.lines[job.project];
    const int64_t claimed = line.claims.empty() ? 0 : line.claims.back().second;
    if (core_.IsOverQuota(job, {{job.project, claimed}})) {
      line.over_quota = &job;
      walk.CloseLane();
      continue;
    }
    if (heads.first == nullptr) heads.first = &job;
    line.claims.emplace_back(*key, claimed + core_.ClaimOf(job));
  }
  return heads;
}

int64_t QueueView::Line::ClaimedBefore(const QueueKey& key) const {
  const auto next =
      std::lower_bound(claims.begin(), claims.end(), key,
                       [](const auto& claim, const QueueKey& of) { return claim.first < of; });
  return next == claims.begin() ? 0 : std::prev(next)->second;
}

std::optional<Unplaced> QueueView::WhyOverQuota(const JobRecord& job, const Heads& heads) const {
  const auto line = heads.lines.find(job.project);
  const JobRecord* head = line == heads.lines.end() ? nullptr : line->second.over_quota;
  if (head != nullptr && KeyOf(job) < KeyOf(*head)) head = nullptr;
  const QueueKey key = KeyOf(head == nullptr ? job : *head);
  const int64_t claimed = line == heads.lines.end() ? 0 : line->second.ClaimedBefore(key);
  if (head == nullptr && !core_.IsOverQuota(job, {{job.project, claimed}})) return std::nullopt;
  const auto& held = core_.index().held_by();
  const auto found = held.find(job.project);
  std::string why =
      absl::StrCat("project ", job.project, " uses ", found == held.end() ? 0 : found->second,
                   " of its ", DevicesOf(core_.options().quotas, job.project), " devices");
  if (claimed > 0) absl::StrAppend(&why, ", and its jobs ahead wait for ", claimed, " of them");
  if (head == nullptr || head->id == job.id) {
    absl::StrAppend(&why, "; this job needs ", core_.Queued(job).gang.ranks());
  } else {
    absl::StrAppend(&why, "; waits behind job ", head->id, ", which needs ",
                    core_.Queued(*head).gang.ranks());
  }
  return Unplaced{job.id, "OverQuota", std::move(why)};
}

Unplaced QueueView::WhyWaiting(const JobRecord& job) {
  const QueuedJob queued = core_.Queued(job);
  if (!core_.Slots().IsPossible(queued)) return core_.Slots().WhyWaiting(queued, nullptr);
  const Heads& heads = HeadsOf(job.device_kind);
  if (std::optional<Unplaced> why = WhyOverQuota(job, heads)) return *std::move(why);
  if (heads.first == nullptr || !(KeyOf(*heads.first) < KeyOf(job))) {
    Unplaced why = core_.Slots().WhyWaiting(queued, nullptr);
    const std::vector<std::string> victims = core_.PreemptedFor(job);
    if (!victims.empty()) {
      absl::StrAppend(&why.message, "; ", absl::StrJoin(victims, ", "), " will make room");
    }
    return why;
  }
  const QueuedJob first = core_.Queued(*heads.first);
  Unplaced why = core_.Slots().WhyWaiting(queued, &first);
  absl::StrAppend(&why.message, "; place ",
                  core_.index().WaitingBefore(job.device_kind, KeyOf(job)) + 1, " in the queue");
  return why;
}

JobRecord QueueView::Shown(const JobRecord& job) {
  JobRecord shown = job;
  if (job.state != JobState::kPending || core_.BacksOff(job)) return shown;
  for (Condition& condition : shown.conditions) {
    if (condition.type != "Scheduled") continue;
    Unplaced why = WhyWaiting(job);
    condition.reason = std::move(why.reason);
    condition.message = std::move(why.message);
  }
  return shown;
}

}  // namespace stretto::coordinator
