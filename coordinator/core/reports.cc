// SPDX-License-Identifier: Apache-2.0

// Reports of ranks: checks, acknowledgement, and the effect of each kind.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// Keeps the longest of the durations that the ranks reported. Returns whether it changed.
bool Extend(std::optional<absl::Duration>* longest, absl::Duration duration) {
  duration = std::max(duration, absl::ZeroDuration());  // the wall clock may be set back
  if (longest->has_value() && **longest >= duration) return false;
  *longest = duration;
  return true;
}

// The reason of a failure, which may be one that only newer trainers know.
std::string FailureReason(const RankExited& report) {
  const ExitReason reason = ExitReasonOf(report.reason);
  if (report.stopped_by_daemon || reason == ExitReason::kCancelled)
    return NameOf(ExitReason::kStopped);
  if (!report.reason.empty() && reason != ExitReason::kCompleted) return report.reason;
  return NameOf(report.signal != 0 ? ExitReason::kKilled : ExitReason::kExited);
}

std::string ExitMessage(const RankExited& report) {
  std::string text = report.signal != 0 ? absl::StrCat("killed by signal ", report.signal)
                                        : absl::StrCat("exited with code ", report.exit_code);
  if (report.step > 0) absl::StrAppend(&text, " at step ", report.step);
  if (!report.phase.empty()) absl::StrAppend(&text, " in ", report.phase);
  if (!report.message.empty()) absl::StrAppend(&text, ": ", report.message);
  return text;
}

}  // namespace

std::optional<absl::Time> Core::TimeOf(const std::string& id, int32_t rank,
                                       absl::Time reported) const {
  const Job& job = jobs_.at(id);
  if (job.record.attempts.back().start_time <= reported && reported <= now_) return reported;
  const bool is_repeat = job.acked[rank] <= job.replayed[rank];
  return is_repeat ? std::nullopt : std::optional(now_);
}

absl::Status Core::CheckReport(const RankReported& event) const {
  RETURN_IF_ERROR(membership_.Check(event.worker, event.session));
  const int32_t rank = event.rank.value();
  const JobRecord* job = FindJobByUid(event.job_uid);
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat("worker \"", event.worker, "\" reports rank ", rank,
                                            " of an unknown job, uid ", event.job_uid));
  }
  const std::string who = absl::StrCat("report ", event.sequence, " of rank ", rank, " of job \"",
                                       job->id, "\" from worker \"", event.worker, "\"");
  if (event.epoch != job->epoch) {
    return absl::AbortedError(absl::StrCat(who, " has epoch ", event.epoch.value(),
                                           "; the current epoch is ", job->epoch.value()));
  }
  if (rank < 0 || rank >= static_cast<int32_t>(job->ranks.size())) {
    return absl::NotFoundError(
        absl::StrCat(who, ": the job has ", job->ranks.size(), " placed ranks"));
  }
  const RankRecord& record = job->ranks[rank];
  if (record.worker != event.worker) {
    return absl::AbortedError(
        absl::StrCat(who, ": this rank was assigned to worker \"", record.worker, "\""));
  }
  if (record.state == RankState::kLost) {
    return absl::AbortedError(absl::StrCat(who, ": this rank has been counted as lost"));
  }
  // A gap means that reports were lost on the way. Reports at or below `acked` are repeats, which
  // are acknowledged again and change nothing.
  const int64_t acked = jobs_.at(job->id).acked[rank];
  if (event.sequence - event.dropped > acked + 1) {
    return absl::OutOfRangeError(absl::StrCat(who, " leaves a gap; expected report ", acked + 1));
  }
  return absl::OkStatus();
}

absl::Status Core::Handle(const RankReported& event) {
  RETURN_IF_ERROR(CheckReport(event));
  const std::string id = id_by_uid_.at(event.job_uid);
  const int32_t rank = event.rank.value();
  // Touch, not Change: sequence numbers and step numbers are not worth a write to the store per
  // report.
  int64_t acked = Touch(id).acked[rank];  // a copy: the report may begin another attempt
  if (event.sequence > acked) {
    Touch(id).acked[rank] = acked = event.sequence;
    effects_.fresh = true;
    if (!IsEnded(Get(id).state)) {
      std::visit([&](const auto& report) { On(id, rank, report); }, event.report);
      const auto* step = std::get_if<StepDone>(&event.report);
      if (step != nullptr && event.sequence > jobs_.at(id).replayed[rank]) {
        NoteMove(id, *step);
        Compare(id, rank, *step);
      }
    }
  }
  SendTo(
      event.worker,
      SendAck{
          .job_uid = event.job_uid, .epoch = event.epoch, .rank = event.rank, .sequence = acked});
  return absl::OkStatus();
}

void Core::On(const std::string&, int32_t, const OtherReport&) {}

void Core::On(const std::string& id, int32_t rank, const RankPrepared& report) {
  if (Get(id).ranks[rank].state != RankState::kAssigned) return;
  JobRecord& job = Change(id);
  job.ranks[rank].state = RankState::kPrepared;
  if (!job.start_time.has_value()) job.start_time = TimeOf(id, rank, report.time).value_or(now_);
  const bool all = std::all_of(job.ranks.begin(), job.ranks.end(),
                               [](const RankRecord& r) { return r.state == RankState::kPrepared; });
  // A job that is already stopping never becomes RUNNING, even if its last rank gets prepared.
  if (!all || job.state != JobState::kPreparing || !job.stop_reason.empty()) return;
  job.state = JobState::kRunning;
  const std::string ranks =
      absl::StrCat(job.world_size(), " of ", job.world_size(), " ranks prepared");
  SetCondition(id, "Prepared", ConditionStatus::kTrue, "AllRanksPrepared", ranks);
  if (report.resumed_inexactly) {
    SetCondition(id, "ResumedExactly", ConditionStatus::kFalse, "OtherLayout",
                 "the checkpoint was written under another layout: training computes the same, but "
                 "rounds differently");
  }
  if (report.decay_steps > 0) {
    SetCondition(id, "LearningRateKept", ConditionStatus::kTrue, "FromCheckpoint",
                 absl::StrCat("the learning rate falls until step ", report.decay_steps,
                              ", as in the run of the checkpoint: the job leaves "
                              "optimizer.decay_steps open"));
  }
  SetCondition(id, "Running", ConditionStatus::kTrue, "Training", "");
  const Condition* restarting = job.FindCondition("Restarting");
  if (restarting != nullptr && restarting->status == ConditionStatus::kTrue) {
    SetCondition(id, "Restarting", ConditionStatus::kFalse, "Restarted",
                 absl::StrCat("attempt ", job.attempt, " trains"));
  }
}

void Core::On(const std::string& id, int32_t rank, const FirstOperationDone& report) {
  const std::optional<absl::Time> time = TimeOf(id, rank, report.time);
  if (Get(id).attempt > 1 || !time) return;
  std::optional<absl::Duration> longest = Get(id).submit_to_first_operation;
  if (Extend(&longest, *time - Get(id).create_time)) {
    Change(id).submit_to_first_operation = longest;
  }
}

void Core::On(const std::string& id, int32_t rank, const StepDone& report) {
  RankRecord& record = Touch(id).record.ranks[rank];
  record.last_step = std::max(record.last_step, report.step);
  if (report.step != 1 || Get(id).attempt > 1) return;
  const std::optional<absl::Time> time = TimeOf(id, rank, report.end_time);
  if (!time) return;
  std::optional<absl::Duration> longest = Get(id).submit_to_first_step;
  if (Extend(&longest, *time - Get(id).create_time)) {
    Change(id).submit_to_first_step = longest;
  }
}

// The length of the next step is known from the last one. More than a lease is not waited for: that
// much passes anyway before a rank that ended with the step can be missed.
void Core::NoteMove(const std::string& id, const StepDone& report) {
  const absl::Duration length =
      std::clamp(absl::Seconds(report.times.wall), absl::ZeroDuration(), options_.lease);
  Touch(id).step_due = steady_ + length;
}

void Core::Compare(const std::string& id, int32_t rank, const StepDone& report) {
  auto watch = stragglers_.find(id);
  if (watch == stragglers_.end()) {
    std::vector<int32_t> stages;
    for (const StageBlocks& stage : Get(id).GangIn(Get(id).layout).stages)
      stages.push_back(stage.ranks());
    watch = stragglers_.emplace(id, StragglerWatch(stages)).first;
  }
  StepTimes times = report.times;
  // A GPU computes on while the threads that feed it wait for a CPU.
  if (Get(id).device_kind == kGpuKind) times.preempted = 0;
  if (watch->second.Add(rank, times)) ShowStragglers(id, watch->second);
}

void Core::ShowStragglers(const std::string& id, const StragglerWatch& watch) {
  std::vector<std::string> slow;
  for (const auto& [rank, score] : watch.stragglers()) {
    const int32_t others = watch.StageSizeOf(rank) - 1;
    slow.push_back(absl::StrCat("rank ", rank, " on worker ", Get(id).ranks[rank].worker, ": ",
                                others == 1
                                    ? "1 other rank of its stage waits"
                                    : absl::StrCat(others, " other ranks of its stage wait"),
                                " for it in ", std::lround(100 * score), "% of each step"));
  }
  if (slow.empty()) {
    SetCondition(id, "RanksBalanced", ConditionStatus::kTrue, "Balanced", "");
  } else {
    SetCondition(id, "RanksBalanced", ConditionStatus::kFalse, "Straggler",
                 absl::StrJoin(slow, "; "));
  }
}

void Core::On(const std::string& id, int32_t, const CheckpointDone& report) {
  AnswerRequest(id, report);
  const JobRecord& job = Get(id);
  // After a restart of the coordinator, ranks replay older reports; these must not replace a newer
  // one.
  if (report.step < job.last_checkpoint_step) return;
  if (report.ok && report.name == job.last_checkpoint) return;
  if (report.step != job.last_checkpoint_step) Change(id).last_checkpoint_step = report.step;
  if (report.ok) {
    JobRecord& saved = Change(id);
    saved.last_checkpoint = report.name;
    if (!report.best.empty()) saved.best_checkpoint = report.best;
    if (!saved.attempts.empty()) saved.attempts.back().saved_step = report.step;
    SetCondition(id, "Checkpointed", ConditionStatus::kTrue, "Saved", report.name);
  } else {
    SetCondition(id, "Checkpointed", ConditionStatus::kFalse, "CheckpointFailed",
                 absl::StrCat("step ", report.step, ": ", report.message));
  }
}

void Core::On(const std::string& id, int32_t rank, const RankExited& report) {
  if (Get(id).ranks[rank].gone()) return;
  RankRecord& record = Change(id).ranks[rank];
  record.state = RankState::kExited;
  record.exit_code = report.exit_code;
  record.signal = report.signal;
  record.exit_reason = report.reason;
  if (!record.completed()) {
    Fail(id, {.rank = rank,
              .worker = record.worker,
              .exit_code = report.exit_code,
              .signal = report.signal,
              .reason = FailureReason(report),
              .message = ExitMessage(report),
              .step = report.step,
              .phase = report.phase,
              .last_operation = report.last_operation,
              .time = TimeOf(id, rank, report.time).value_or(now_)});
  }
  FinishIfGone(id, report.message);
  PlaceQueued();
}

void Core::On(const std::string& id, int32_t rank, const RankWarned& report) {
  // All other conditions belong to the core.
  if (report.condition != "LogIntact") return;
  SetCondition(id, report.condition, ConditionStatus::kFalse, report.reason,
               absl::StrCat("rank ", rank, ": ", report.message));
}

}  // namespace stretto::coordinator
