// SPDX-License-Identifier: Apache-2.0

// The end of an attempt, the wait for the next one, and the requests that come between them:
// suspending and resuming. When an attempt ends, nothing of it stays in the job but its entry in
// `attempts`; so an event of the attempt that arrives later finds no rank that it could change.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "coordinator/core/restart.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr char kSuspendReason[] = "Suspended";

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status NoJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no job \"", id, "\""));
}

}  // namespace

void Core::BeginAttempt(const std::string& id) {
  JobRecord& job = Change(id);
  AttemptRecord attempt{.number = ++job.attempt,
                        .epoch = job.epoch,
                        .workers = {},
                        .start_time = now_,
                        .end_time = {},
                        .first_failure = {}};
  attempt.layout = job.layout;
  if (!job.attempts.empty()) attempt.from_step = job.attempts.back().safe_step();
  std::set<std::string> workers;
  for (const RankRecord& rank : job.ranks) workers.insert(rank.worker);
  attempt.workers.assign(workers.begin(), workers.end());
  job.attempts.push_back(std::move(attempt));
  if (job.attempts.size() > JobRecord::kKeptAttempts) job.attempts.erase(job.attempts.begin());
  job.next_attempt_time.reset();
  job.last_checkpoint_step = 0;
}

void Core::EndAttempt(const std::string& id, RestartCause cause) {
  JobRecord& job = Change(id);
  effects_.summaries.insert(id);
  CloseRequest(id);
  stragglers_.erase(id);
  if (job.attempts.empty() || job.attempts.back().end_time.has_value()) return;
  AttemptRecord& attempt = job.attempts.back();
  attempt.end_time = now_;
  attempt.steps = job.steps_done();
  attempt.cause = cause;
  attempt.first_failure = job.first_failure;
  if (job.first_failure.has_value()) Blame(id, *job.first_failure);
}

bool Core::RestartFailed(const std::string& id) {
  const RestartDecision decision = DecideRestart(Get(id), Get(id).first_failure->reason);
  if (!decision.restart) {
    if (!decision.reason.empty()) {
      SetCondition(id, "Restarting", ConditionStatus::kFalse, decision.reason, decision.message);
    }
    return false;
  }
  EndAttempt(id, decision.cause);
  JobRecord& job = Change(id);
  const std::string why = absl::StrCat("attempt ", job.attempt, ": ", job.first_failure->Text());
  if (Counts(decision.cause)) ++job.restarts;
  job.next_attempt_time = now_ + decision.delay;
  Touch(id).next_attempt = steady_ + decision.delay;
  Release(id, JobState::kPending);
  ShowLayouts(id);
  SetCondition(id, "Restarting", ConditionStatus::kTrue, NameOf(decision.cause), why);
  SetCondition(
      id, "Scheduled", ConditionStatus::kFalse, "BackingOff",
      absl::StrCat("attempt ", job.attempt + 1, " starts after ", TimeText(*job.next_attempt_time),
                   "; ", job.restarts, " of at most ", job.restart->max, " restarts are used"));
  return true;
}

void Core::Release(const std::string& id, JobState state) {
  Touch(id).positions.clear();
  JobRecord& job = Change(id);
  job.state = state;
  job.ranks.clear();
  job.preempted_by.clear();
  job.stop_reason.clear();
  job.stop_with_checkpoint = false;
  job.first_failure.reset();
  job.suspect.reset();
  for (const char* of_ranks : {"DevicesHealthy", "WorkersReachable", "RanksBalanced"}) {
    if (job.FindCondition(of_ranks) != nullptr)
      SetCondition(id, of_ranks, ConditionStatus::kTrue, "Released", "");
  }
}

void Core::CloseRestarting(const std::string& id, const std::string& reason) {
  const Condition* restarting = Get(id).FindCondition("Restarting");
  if (restarting == nullptr || restarting->status != ConditionStatus::kTrue) return;
  SetCondition(id, "Restarting", ConditionStatus::kFalse, reason, "");
}

void Core::Suspend(const std::string& id) {
  CloseRestarting(id, kSuspendReason);
  EndAttempt(id, RestartCause::kNone);
  Release(id, JobState::kSuspended);
  Change(id).next_attempt_time.reset();
  Change(id).suspend_time = now_;
  if (Get(id).FindCondition("Running") != nullptr) {
    SetCondition(id, "Running", ConditionStatus::kFalse, kSuspendReason, "");
  }
  SetCondition(id, "Scheduled", ConditionStatus::kFalse, kSuspendReason,
               absl::StrCat("by request, after ", Get(id).steps_done(), " of ", Get(id).total_steps,
                            " steps"));
}

absl::Status Core::Handle(const SuspendJob& event) {
  const JobRecord* job = FindJob(event.job_id);
  if (job == nullptr) return NoJob(event.job_id);
  if (IsEnded(job->state) || job->state == JobState::kCancelling) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" is ", JobStateName(job->state),
                     "; only a job that has not ended can be suspended"));
  }
  effects_.job_id = event.job_id;
  if (job->state == JobState::kSuspended || job->state == JobState::kSuspending) {
    return absl::OkStatus();
  }
  if (job->state == JobState::kPending) {
    Suspend(event.job_id);
    PlaceQueued();
    return absl::OkStatus();
  }
  Change(event.job_id).state = JobState::kSuspending;
  if (job->stop_reason.empty()) Stop(event.job_id, kSuspendReason, /*checkpoint=*/true);
  return absl::OkStatus();
}

absl::Status Core::Handle(const ResumeJob& event) {
  const JobRecord* found = FindJob(event.job_id);
  if (found == nullptr) return NoJob(event.job_id);
  if (found->retire_time) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" is ", JobStateName(found->state),
                     " and was retired, so its spec is not known any more; expected a job that was "
                     "not. Submit a job of another name with checkpoint.resume_from: ",
                     event.job_id));
  }
  const bool trains_on =
      found->state == JobState::kSucceeded && event.total_steps > 0 && found->saves;
  if (found->state != JobState::kSuspended && found->state != JobState::kFailed &&
      found->state != JobState::kCancelled && !trains_on) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" is ", JobStateName(found->state),
                     "; only a job that is SUSPENDED, FAILED or CANCELLED can be resumed, and with "
                     "more steps one that has SUCCEEDED and writes checkpoints"));
  }
  RETURN_IF_ERROR(CheckQuota(found->project, found->gang.ranks(),
                             event.total_steps > 0 ? event.spec : found->spec));
  effects_.job_id = event.job_id;
  Release(event.job_id, JobState::kPending);
  JobRecord& job = Change(event.job_id);
  live_[job.number] = event.job_id;
  if (event.total_steps > 0) {
    job.total_steps = event.total_steps;
    job.spec = event.spec;
  }
  const absl::Time since = job.suspend_time.value_or(job.end_time.value_or(now_));
  job.paused += std::max(absl::ZeroDuration(), now_ - since);  // the wall clock may be set back
  job.suspend_time.reset();
  job.end_time.reset();
  job.next_attempt_time.reset();
  job.restarts = 0;
  if (job.FindCondition("Succeeded") != nullptr) {
    SetCondition(event.job_id, "Succeeded", ConditionStatus::kUnknown, "Resumed", "");
  }
  PlaceQueued();
  return absl::OkStatus();
}

}  // namespace stretto::coordinator
