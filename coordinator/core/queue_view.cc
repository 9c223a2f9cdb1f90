// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stretto::coordinator {

Placer& QueueView::placer() {
  if (!placer_) placer_.emplace(core_.ClusterView());
  return *placer_;
}

const std::optional<int64_t>& QueueView::HeadOf(int32_t kind) {
  const auto [head, added] = heads_.try_emplace(kind);
  const auto queue = core_.index().waiting().find(kind);
  if (!added || queue == core_.index().waiting().end()) return head->second;
  for (int64_t number : queue->second) {
    const QueuedJob job = core_.Queued(number);
    if (core_.BacksOff(*core_.FindJob(job.id)) || !placer().IsPossible(job)) continue;
    head->second = number;
    break;
  }
  return head->second;
}

Unplaced QueueView::WhyWaiting(const QueuedJob& job, int64_t number) {
  const std::optional<int64_t>& head = HeadOf(job.kind);
  if (!head || *head >= number) return placer().WhyWaiting(job, nullptr);
  const QueuedJob first = core_.Queued(*head);
  Unplaced why = placer().WhyWaiting(job, &first);
  if (!placer().IsPossible(job)) return why;  // it waits for no other job
  const std::vector<int64_t>& queue = core_.index().waiting().at(job.kind);
  const auto ahead = std::lower_bound(queue.begin(), queue.end(), number) - queue.begin();
  absl::StrAppend(&why.message, "; place ", ahead + 1, " in the queue");
  return why;
}

JobRecord QueueView::Shown(const JobRecord& job) {
  JobRecord shown = job;
  if (job.state != JobState::kPending || core_.BacksOff(job)) return shown;
  for (Condition& condition : shown.conditions) {
    if (condition.type != "Scheduled") continue;
    Unplaced why = WhyWaiting(core_.Queued(job.number), job.number);
    condition.reason = std::move(why.reason);
    condition.message = std::move(why.message);
  }
  return shown;
}

std::vector<RankSlot> QueueView::Try(const QueuedJob& job) {
  if (HeadOf(job.kind) || !placer().IsPossible(job)) return {};
  return placer().Take(job);
}

}  // namespace stretto::coordinator
