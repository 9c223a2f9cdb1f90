// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/line.h"

namespace stretto::coordinator {

const QueueView::Heads& QueueView::FindHeads() {
  if (heads_) return *heads_;
  Heads& heads = heads_.emplace();
  Core::Line line(core_);
  while (const JobRecord* job = line.Next()) {
    heads.first.emplace(job->device_kind, job);
    // A lane says nothing new behind a job that waits, unless the job claims devices of a quota.
    // The lane of projects without one is the longest.
    if (DevicesOf(core_.options().quotas, job->project) == INT64_MAX) {
      line.CloseLane();
    } else {
      heads.claims[job->project].emplace_back(KeyOf(*job), line.ClaimedBy(job->project));
    }
  }
  heads.held_up = line.held_up();
  return heads;
}

int64_t QueueView::Heads::ClaimedBefore(const std::string& project, const QueueKey& key) const {
  const auto found = claims.find(project);
  if (found == claims.end()) return 0;
  const auto next =
      std::lower_bound(found->second.begin(), found->second.end(), key,
                       [](const auto& claim, const QueueKey& of) { return claim.first < of; });
  return next == found->second.begin() ? 0 : std::prev(next)->second;
}

std::optional<Unplaced> QueueView::WhyOverQuota(const JobRecord& job, const Heads& heads) const {
  const auto line = heads.held_up.find(job.project);
  const JobRecord* head = line == heads.held_up.end() ? nullptr : line->second;
  if (head != nullptr && KeyOf(job) < KeyOf(*head)) head = nullptr;
  const QueueKey key = KeyOf(head == nullptr ? job : *head);
  const int64_t claimed = heads.ClaimedBefore(job.project, key);
  if (head == nullptr && !core_.IsOverQuota(job, claimed)) return std::nullopt;
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
  const Heads& heads = FindHeads();
  if (std::optional<Unplaced> why = WhyOverQuota(job, heads)) return *std::move(why);
  const auto head = heads.first.find(job.device_kind);
  if (head == heads.first.end() || !(KeyOf(*head->second) < KeyOf(job))) {
    Unplaced why = core_.Slots().WhyWaiting(queued, nullptr);
    const std::vector<std::string> victims = core_.PreemptedFor(job);
    if (!victims.empty()) {
      absl::StrAppend(&why.message, "; ", absl::StrJoin(victims, ", "), " will make room");
    }
    return why;
  }
  const QueuedJob first = core_.Queued(*head->second);
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
