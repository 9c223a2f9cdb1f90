// SPDX-License-Identifier: Apache-2.0

// Adds reports to counters and a histogram, and exports them with the labels of the job and the
// rank. Checkpoints belong to the job, so they are exported for rank 0 only.

#include "worker/daemon/rank_series.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/exit_reason.h"
#include "worker/daemon/metric_table.h"

namespace stretto::daemon {
namespace {

using metrics::Row;
using stretto::v1alpha1::Ledger;

constexpr double kStepBuckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                   1,     2.5,    5,     10,   30,    60,   120, 300,  600};

// Far more steps than an asynchronous checkpoint takes.
constexpr size_t kMostUnsaved = 4096;

double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + static_cast<double>(time.nanos()) * 1e-9;
}

bool IsProgress(Ledger::Part part) {
  return part != Ledger::DATA_WAIT && part != Ledger::CHECKPOINT_WAIT && part != Ledger::EVALUATION;
}

}  // namespace

RankSeries::RankSeries() : step_seconds_(kStepBuckets) {}

void RankSeries::Add(const stretto::v1alpha1::RankPrepared& prepared) {
  peak_flops_ = prepared.peak_flops();
  for (const auto& arena : prepared.arenas()) {
    arenas_[arena.arena()] = static_cast<double>(arena.bytes());
  }
}

void RankSeries::Add(const stretto::v1alpha1::StepReport& step) {
  step_seconds_.Observe(step.wall_seconds());
  tokens_ += static_cast<double>(step.tokens());
  model_flops_ += step.model_flops();
  skipped_ += step.update_skipped() ? 1 : 0;
  loss_ = step.loss();
  grad_norm_ = step.grad_norm();
  last_step_ = SecondsOf(step.end_time());
  if (step.has_evaluation()) {
    evaluated_ = true;
    evaluation_ = step.evaluation();
    evaluation_seconds_ += step.evaluation().seconds();
  }
  communication_ += step.ledger().communication_seconds();
  hidden_ += step.ledger().hidden_seconds();
  if (step.ledger().has_preempted_seconds())
    preempted_ = preempted_.value_or(0) + step.ledger().preempted_seconds();
  switches_ += static_cast<double>(step.ledger().involuntary_switches());
  double progress = 0;
  for (const Ledger::Entry& entry : step.ledger().entries()) {
    ledger_[{absl::AsciiStrToLower(Ledger::Part_Name(entry.part())), entry.group(),
             entry.phase()}] += entry.seconds();
    if (IsProgress(entry.part())) progress += entry.seconds();
  }
  if (step.step() <= saved_step_) return;
  unsaved_.emplace_back(step.step(), progress);
  if (unsaved_.size() <= kMostUnsaved) return;
  unsaved_[1].second += unsaved_[0].second;
  unsaved_.pop_front();
}

void RankSeries::Add(const stretto::v1alpha1::CheckpointReport& checkpoint) {
  checkpoint_seconds_ += checkpoint.seconds();
  if (!checkpoint.ok()) {
    ++checkpoints_failed_;
    return;
  }
  ++checkpoints_;
  checkpoint_bytes_ += static_cast<double>(checkpoint.bytes());
  checkpoint_ = SecondsOf(checkpoint.time());
  saved_step_ = checkpoint.step();
  while (!unsaved_.empty() && unsaved_.front().first <= saved_step_) unsaved_.pop_front();
}

void RankSeries::Add(const stretto::v1alpha1::RankExit& exit) {
  if (!Succeeds(ExitReasonOf(exit.reason()))) {
    for (const auto& [step, seconds] : unsaved_) lost_ += seconds;
  }
  unsaved_.clear();
}

void RankSeries::Show(const std::string& job, int32_t rank, metrics::Families* families) const {
  const std::vector<std::string> labels = {job, absl::StrCat(rank)};
  ShowSteps(labels, families);
  for (const auto& [arena, bytes] : arenas_) {
    families->Add(Row(kMetrics, "stretto_arena_bytes"), {job, labels[1], arena}, bytes);
  }
  if (peak_flops_ > 0) {
    families->Add(Row(kMetrics, "stretto_peak_flops_per_second"), labels, peak_flops_);
  }
  if (rank == 0) ShowCheckpoints(labels, families);
}

void RankSeries::ShowSteps(const std::vector<std::string>& labels,
                           metrics::Families* families) const {
  families->Add(Row(kMetrics, "stretto_step_seconds"), labels, step_seconds_);
  families->Add(Row(kMetrics, "stretto_steps_total"), labels,
                static_cast<double>(step_seconds_.count()));
  families->Add(Row(kMetrics, "stretto_tokens_total"), labels, tokens_);
  families->Add(Row(kMetrics, "stretto_model_flops_total"), labels, model_flops_);
  families->Add(Row(kMetrics, "stretto_updates_skipped_total"), labels, skipped_);
  families->Add(Row(kMetrics, "stretto_communication_seconds_total"), labels, communication_);
  families->Add(Row(kMetrics, "stretto_communication_hidden_seconds_total"), labels, hidden_);
  families->Add(Row(kMetrics, "stretto_involuntary_switches_total"), labels, switches_);
  if (preempted_.has_value())
    families->Add(Row(kMetrics, "stretto_preempted_seconds_total"), labels, *preempted_);
  if (evaluated_) {
    families->Add(Row(kMetrics, "stretto_eval_loss"), labels, evaluation_.loss());
    families->Add(Row(kMetrics, "stretto_eval_perplexity"), labels, evaluation_.perplexity());
    families->Add(Row(kMetrics, "stretto_eval_seconds_total"), labels, evaluation_seconds_);
  }
  if (step_seconds_.count() == 0) return;  // there was no step yet
  families->Add(Row(kMetrics, "stretto_loss"), labels, loss_);
  families->Add(Row(kMetrics, "stretto_grad_norm"), labels, grad_norm_);
  families->Add(Row(kMetrics, "stretto_last_step_timestamp_seconds"), labels, last_step_);
  for (const auto& [what, seconds] : ledger_) {
    const auto& [part, group, phase] = what;
    families->Add(Row(kMetrics, "stretto_step_ledger_seconds_total"),
                  {labels[0], labels[1], part, group, phase}, seconds);
  }
}

void RankSeries::ShowCheckpoints(const std::vector<std::string>& labels,
                                 metrics::Families* families) const {
  if (checkpoint_ > 0) {
    families->Add(Row(kMetrics, "stretto_checkpoint_timestamp_seconds"), labels, checkpoint_);
  }
  families->Add(Row(kMetrics, "stretto_checkpoints_total"), labels, checkpoints_);
  families->Add(Row(kMetrics, "stretto_checkpoints_failed_total"), labels, checkpoints_failed_);
  families->Add(Row(kMetrics, "stretto_checkpoint_seconds_total"), labels, checkpoint_seconds_);
  families->Add(Row(kMetrics, "stretto_checkpoint_bytes_total"), labels, checkpoint_bytes_);
  families->Add(Row(kMetrics, "stretto_lost_seconds_total"), labels, lost_);
}

}  // namespace stretto::daemon
