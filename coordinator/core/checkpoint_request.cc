// SPDX-License-Identifier: Apache-2.0

// Checkpoints on demand. A job has at most one open request: the number of the newest one, which is
// stored before it is sent, and condition CheckpointRequested, which is TRUE until the answer. The
// answer is the report of a checkpoint that has the number, so that a report which a rank replays
// never answers a later request. A worker that registers gets an open request again. The end of the
// attempt closes it.

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace stretto::coordinator {
namespace {

constexpr char kRequested[] = "CheckpointRequested";

}  // namespace

absl::Status Core::Handle(const CheckpointJob& event) {
  const JobRecord* job = FindJob(event.job_id);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("no job \"", event.job_id, "\""));
  if (!job->saves) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job \"", event.job_id, "\" has checkpoint.disabled; expected a job that may write some"));
  }
  if (job->state != JobState::kRunning || job->ranks.empty() || !job->stop_reason.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job \"", event.job_id, "\" is ", JobStateName(job->state),
        job->stop_reason.empty() ? "" : absl::StrCat(" and about to stop (", job->stop_reason, ")"),
        "; only a RUNNING job that nothing stops can save a checkpoint on request"));
  }
  effects_.job_id = event.job_id;
  if (HasOpenRequest(*job)) return absl::OkStatus();
  ++Change(event.job_id).checkpoint_request;
  SetCondition(event.job_id, kRequested, ConditionStatus::kTrue, "Asked", "");
  SendSaveTo(Get(event.job_id), Get(event.job_id).ranks[0].worker);
  return absl::OkStatus();
}

bool Core::HasOpenRequest(const JobRecord& job) const {
  const Condition* requested = job.FindCondition(kRequested);
  return requested != nullptr && requested->status == ConditionStatus::kTrue;
}

void Core::SendSaveTo(const JobRecord& job, const std::string& worker) {
  if (!HasOpenRequest(job)) return;
  SendTo(worker, SendSave{.job_id = job.id,
                          .job_uid = job.uid,
                          .epoch = job.epoch,
                          .request = job.checkpoint_request});
}

void Core::AnswerRequest(const std::string& id, const CheckpointDone& report) {
  if (!HasOpenRequest(Get(id)) || report.request < Get(id).checkpoint_request) return;
  SetCondition(id, kRequested, ConditionStatus::kFalse, report.ok ? "Saved" : "CheckpointFailed",
               report.ok ? report.name : absl::StrCat("step ", report.step, ": ", report.message));
}

void Core::CloseRequest(const std::string& id) {
  if (!HasOpenRequest(Get(id))) return;
  SetCondition(id, kRequested, ConditionStatus::kFalse, "AttemptEnded",
               absl::StrCat("attempt ", Get(id).attempt, " ended before it was written"));
}

}  // namespace stretto::coordinator
