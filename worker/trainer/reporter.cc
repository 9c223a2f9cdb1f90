// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/reporter.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {

v1alpha1::Ledger ToMessage(const StepLedger& ledger, double wall_seconds,
                           const Preempted& preempted) {
  v1alpha1::Ledger message;
  for (const LedgerEntry& entry : ledger.entries) {
    v1alpha1::Ledger::Entry* out = message.add_entries();
    // The message's enum counts from 1, in the same order.
    out->set_part(static_cast<v1alpha1::Ledger::Part>(static_cast<int>(entry.part) + 1));
    out->set_group(entry.group);
    out->set_phase(entry.phase);
    out->set_seconds(entry.seconds);
  }
  message.set_wall_seconds(wall_seconds);
  if (preempted.seconds.has_value()) message.set_preempted_seconds(*preempted.seconds);
  message.set_involuntary_switches(preempted.switches);
  message.set_communication_seconds(ledger.communication_seconds);
  message.set_hidden_seconds(ledger.hidden_seconds);
  message.set_steps(1);
  return message;
}

v1alpha1::RankPrepared PreparedMessage(const JobConfig& config, const ArenaBytes& step,
                                       const ArenaBytes& evaluation, int64_t copy_bytes) {
  v1alpha1::RankPrepared prepared;
  *prepared.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(Clock::Real().Now()));
  const ScheduleSpec& schedule = config.engine.schedule;
  prepared.set_decay_steps(config.kept_decay_steps);
  if (config.auto_merge_wgrads) prepared.set_merged_wgrads(schedule.merge_wgrads);
  if (config.auto_warm_up) {
    for (int stage : schedule.warm_up) prepared.add_warm_ups(stage);
  }
  const auto add = [&](const char* name, int64_t bytes) {
    v1alpha1::Arena* arena = prepared.add_arenas();
    arena->set_arena(name);
    arena->set_bytes(bytes);
  };
  for (size_t arena = 0; arena < step.size(); ++arena)
    add(NameOf(static_cast<ArenaClass>(arena)), step[arena] + evaluation[arena]);
  if (copy_bytes > 0) add("checkpoint_copy", copy_bytes);
  return prepared;
}

Reporter::Reporter(ReportLog log, DaemonLink& link, const JobConfig& config)
    : link_(link),
      job_id_(config.job_id),
      job_uid_(config.job_uid),
      epoch_(config.epoch),
      rank_(config.rank),
      log_(std::move(log)) {}

void Reporter::Send(v1alpha1::RankReport report) {
  report.set_job_id(job_id_);
  report.set_job_uid(job_uid_);
  report.set_epoch(epoch_);
  report.set_rank(rank_.value());
  const MutexLock lock(mu_);
  SendLocked(report);
}

void Reporter::SendLocked(v1alpha1::RankReport& report) {
  report.set_sequence(log_.last_sequence() + static_cast<int64_t>(unwritten_.size()) + 1);
  unwritten_.push_back(report);
  const absl::Status status = FlushLocked();
  link_.Send(report);  // even if it was not written: the daemon keeps what no log has
  if (status.ok() || warned_) return;
  warned_ = true;
  spdlog::error("reports are held in memory: {}", status.ToString());
  report.mutable_warning()->set_condition("LogIntact");
  report.mutable_warning()->set_reason(absl::IsResourceExhausted(status) ? "DiskFull"
                                                                         : "WriteFailed");
  report.mutable_warning()->set_message(std::string(status.message()));
  // warned_ is set, so this does not recurse further.
  SendLocked(report);
}

absl::Status Reporter::FlushLocked() {
  size_t written = 0;
  absl::Status status;
  for (; written < unwritten_.size(); ++written) {
    status = log_.Append(&unwritten_[written]);
    if (!status.ok()) break;
  }
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(written));
  return status;
}

absl::Status Reporter::Exit(const v1alpha1::RankExit& exit) {
  v1alpha1::RankReport report;
  *report.mutable_exit() = exit;
  Send(std::move(report));
  const MutexLock lock(mu_);
  RETURN_IF_ERROR(FlushLocked());
  return log_.Sync();
}

}  // namespace stretto::trainer
