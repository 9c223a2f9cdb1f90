// SPDX-License-Identifier: Apache-2.0

// The transitions of a job: start, failure, stop and end.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/core/restart.h"
#include "proto/base/check.h"

namespace stretto::coordinator {
namespace {

constexpr int kOwnFailure = 3;

// How well a failure explains the end of a job; a larger value is better. When a rank dies, its
// peers fail too, and their reports may arrive first.
int Weight(const FirstFailure& failure) {
  const ExitReason reason = ExitReasonOf(failure.reason);
  if (reason == ExitReason::kStopped) return 0;   // its daemon stopped it along with the gang
  if (reason == ExitReason::kPeerLost) return 1;  // another rank ended first
  // A signal from outside; the others then agreed to stop.
  if (reason == ExitReason::kTerminated) return 2;
  return kOwnFailure;
}

std::set<std::string> WorkersOf(const JobRecord& job) {
  std::set<std::string> ids;
  for (const RankRecord& rank : job.ranks) {
    if (!rank.gone()) ids.insert(rank.worker);
  }
  return ids;
}

}  // namespace

void Core::Start(const Placed& placed) {
  JobRecord& job = Change(placed.job_id);
  STRETTO_CHECK(job.state == JobState::kPending);
  job.layout = LayoutFor(job);
  STRETTO_CHECK(static_cast<int32_t>(placed.ranks.size()) == job.world_size());
  epoch_.last = Epoch(epoch_.last.value() + 1);
  job.state = JobState::kPreparing;
  job.epoch = epoch_.last;
  for (const RankSlot& slot : placed.ranks) {
    job.ranks.push_back({.worker = slot.worker, .slot = slot.slot, .exit_reason = ""});
  }
  jobs_.at(placed.job_id).acked.assign(job.ranks.size(), 0);
  jobs_.at(placed.job_id).replayed.assign(job.ranks.size(), 0);
  jobs_.at(placed.job_id).step_due = {};
  BeginAttempt(placed.job_id);
  const std::set<std::string> on = WorkersOf(job);
  SetCondition(
      placed.job_id, "Scheduled", ConditionStatus::kTrue, "Placed",
      absl::StrCat(
          job.world_size(), job.world_size() == 1 ? " rank on " : " ranks on ",
          absl::StrJoin(on, ", "),
          CutsBlock(placed.ranks, job.GangIn(job.layout))
              ? "; a tensor-parallel group is on more than one worker"
              : "",
          job.layout == 0 ? "" : absl::StrCat("; in layout ", job.layout, " of restart.layouts")));
  SetCondition(placed.job_id, "Prepared", ConditionStatus::kFalse, "Preparing", "");
  for (const std::string& worker : on) SendAssignTo(job, worker);
}

void Core::LoseRank(const std::string& id, int32_t rank, ExitReason reason,
                    const std::string& message) {
  RankRecord& record = Change(id).ranks[rank];
  record.state = RankState::kLost;
  Fail(id, {.rank = rank,
            .worker = record.worker,
            .exit_code = 0,
            .signal = 0,
            .reason = NameOf(reason),
            .message = message,
            .step = record.last_step,
            .phase = "",
            .last_operation = "",
            .time = now_});
}

void Core::Fail(const std::string& id, FirstFailure failure) {
  JobRecord& job = Change(id);
  // Ranks that end now were asked to.
  if (job.state == JobState::kCancelling || job.state == JobState::kSuspending) return;
  // Only the first failure stops the gang; later ones may still improve the explanation.
  if (job.stop_reason.empty()) {
    const bool running = job.state == JobState::kRunning;
    SetCondition(id, running ? "Running" : "Prepared", ConditionStatus::kFalse, failure.reason,
                 failure.Text());
    Stop(id, failure.reason);
  }
  if (job.first_failure.has_value()) return;
  // What a rank says whose peer the drain has stopped first.
  if (job.stop_reason == NameOf(RestartCause::kPreemption) && Weight(failure) < kOwnFailure) {
    failure.reason = NameOf(ExitReason::kStopped);
  }
  if (Weight(failure) == kOwnFailure) {
    job.first_failure = std::move(failure);
  } else if (!job.suspect.has_value() || Weight(*job.suspect) < Weight(failure)) {
    job.suspect = std::move(failure);
  }
}

void Core::Stop(const std::string& id, const std::string& reason, bool checkpoint) {
  JobRecord& job = Change(id);
  job.stop_reason = reason;
  job.stop_with_checkpoint = checkpoint;
  for (const std::string& worker : WorkersOf(job)) SendStopTo(job, worker);
}

void Core::SendStopTo(const JobRecord& job, const std::string& worker) {
  SendTo(worker, SendStop{.job_id = job.id,
                          .job_uid = job.uid,
                          .epoch = job.epoch,
                          .reason = job.stop_reason,
                          .grace = job.stop_with_checkpoint ? options_.checkpoint_grace
                                                            : options_.stop_grace,
                          .checkpoint = job.stop_with_checkpoint});
}

void Core::FinishIfGone(const std::string& id, const std::string& message) {
  const JobRecord& job = Get(id);
  if (!IsActive(job.state)) return;
  // A rank that has not reported its end may still run on its slot, so the job holds its slots
  // until every rank is gone.
  bool completed = true;
  for (const RankRecord& rank : job.ranks) {
    if (!rank.gone()) return;
    completed &= rank.completed();
  }
  // Ranks that a drain has stopped are no reason to fail a job that is cancelled meanwhile.
  const bool drained =
      job.state == JobState::kCancelling && job.stop_reason == NameOf(RestartCause::kPreemption);
  if (!job.first_failure.has_value() && job.suspect.has_value() && !drained) {
    Change(id).first_failure = job.suspect;
  }
  if (job.state == JobState::kSuspending && !completed) return Suspend(id);
  const ExitReason failure = job.first_failure.has_value() ? ExitReasonOf(job.first_failure->reason)
                                                           : ExitReason::kCompleted;
  // A worker may be lost while the job makes room; that must not cost a job without a policy.
  const bool made_room = failure == ExitReason::kStopped || failure == ExitReason::kTerminated ||
                         CauseOf(failure) == RestartCause::kNodeLoss;
  if (!job.preempted_by.empty() && job.state != JobState::kCancelling && made_room) {
    return Requeue(id);
  }
  if (job.first_failure.has_value() && job.state != JobState::kCancelling && RestartFailed(id)) {
    return;
  }
  if (job.first_failure.has_value()) {
    End(id, JobState::kFailed, job.first_failure->reason, job.first_failure->Text());
  } else if (job.state == JobState::kCancelling) {
    End(id, JobState::kCancelled, NameOf(ExitReason::kCancelled),
        absl::StrCat("cancelled after ", job.steps_done(), " of ", job.total_steps, " steps"));
  } else {
    STRETTO_CHECK(completed);
    // Ranks agree to stop early, so the message of the last one to end holds for all.
    const ExitReason reason = ExitReasonOf(job.ranks[0].exit_reason);
    End(id, JobState::kSucceeded, NameOf(reason),
        reason == ExitReason::kCompleted ? absl::StrCat(job.total_steps, " steps") : message);
  }
}

void Core::End(const std::string& id, JobState state, const std::string& reason,
               const std::string& message) {
  JobRecord& job = Change(id);
  const bool ran = job.FindCondition("Running") != nullptr;
  EndAttempt(id, job.first_failure ? CauseOf(ExitReasonOf(job.first_failure->reason))
                                   : RestartCause::kNone);
  job.state = state;
  job.end_time = now_;
  live_.erase(job.number);
  if (job.next_attempt_time.has_value()) {
    job.next_attempt_time.reset();
    SetCondition(id, "Scheduled", ConditionStatus::kFalse, "Ended", "");
  }
  CloseRestarting(id, "Ended");
  // A job that never ran has no condition Running to close.
  if (ran) SetCondition(id, "Running", ConditionStatus::kFalse, "Ended", "");
  SetCondition(id, "Succeeded",
               state == JobState::kSucceeded ? ConditionStatus::kTrue : ConditionStatus::kFalse,
               reason, message);
}

void Core::SetCondition(const std::string& id, const std::string& type, ConditionStatus status,
                        const std::string& reason, const std::string& message) {
  const Condition* old = Get(id).FindCondition(type);
  if (old == nullptr) {
    Change(id).conditions.push_back({type, status, reason, message, now_});
    return;
  }
  if (old->status == status && old->reason == reason && old->message == message) return;
  for (Condition& condition : Change(id).conditions) {
    if (condition.type != type) continue;
    if (condition.status != status) condition.last_transition_time = now_;
    condition.status = status;
    condition.reason = reason;
    condition.message = message;
  }
}

}  // namespace stretto::coordinator
