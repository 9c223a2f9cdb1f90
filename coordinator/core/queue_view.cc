// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue_view.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::coordinator {
Placer& QueueView::placer() {
  if (!placer_) placer_.emplace(core_.ClusterView());
  return *placer_;
}

const QueueView::Heads& QueueView::HeadsOf(int32_t kind) {
  const auto [entry, added] = heads_.try_emplace(kind);
  Heads& heads = entry->second;
  const auto lanes = core_.index().waiting().find(kind);
  if (!added || lanes == core_.index().waiting().end()) return heads;
  QueueWalk walk(lanes->second);
  while (const std::optional<QueueKey> key = walk.Next()) {
    const JobRecord& job = core_.JobOf(key->number);
    if (core_.BacksOff(job) || !placer().IsPossible(core_.Queued(job)) || core_.ExceedsQuota(job))
      continue;
    if (core_.IsOverQuota(job)) {
      heads.over_quota.emplace(job.project, &job);
    } else if (heads.first == nullptr) {
      heads.first = &job;
    }
    // A lane says nothing new behind a job that waits; the one lane without a quota is the longest.
    walk.CloseLane();
  }
  return heads;
}

Unplaced QueueView::WhyOverQuota(const JobRecord& job, const JobRecord& head) const {
  const auto& held = core_.index().held_by();
  const auto found = held.find(job.project);
  const std::string use =
      absl::StrCat("project ", job.project, " uses ", found == held.end() ? 0 : found->second,
                   " of its ", DevicesOf(core_.options().quotas, job.project), " devices; ");
  if (head.id == job.id) {
    return {job.id, "OverQuota",
            absl::StrCat(use, "this job needs ", core_.Queued(job).gang.ranks())};
  }
  return {job.id, "OverQuota",
          absl::StrCat(use, "waits behind job ", head.id, ", which needs ",
                       core_.Queued(head).gang.ranks())};
}

Unplaced QueueView::WhyWaiting(const JobRecord& job) {
  const QueuedJob queued = core_.Queued(job);
  const Heads& heads = HeadsOf(job.device_kind);
  if (!placer().IsPossible(queued)) return placer().WhyWaiting(queued, nullptr);
  const auto held_up = heads.over_quota.find(job.project);
  if (held_up != heads.over_quota.end() && !(KeyOf(job) < KeyOf(*held_up->second))) {
    return WhyOverQuota(job, *held_up->second);
  }
  if (core_.IsOverQuota(job)) return WhyOverQuota(job, job);
  if (heads.first == nullptr || !(KeyOf(*heads.first) < KeyOf(job))) {
    Unplaced why = placer().WhyWaiting(queued, nullptr);
    const std::vector<std::string> victims = core_.PreemptedFor(job);
    if (!victims.empty()) {
      absl::StrAppend(&why.message, "; ", absl::StrJoin(victims, ", "), " will make room");
    }
    return why;
  }
  const QueuedJob first = core_.Queued(*heads.first);
  Unplaced why = placer().WhyWaiting(queued, &first);
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
