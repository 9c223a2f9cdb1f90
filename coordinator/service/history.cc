// SPDX-License-Identifier: Apache-2.0

// Keeps the steps of a job as serialised messages, at most kMaxSteps of rank 0, and sums of all
// ranks' ledgers. The summary of an ended job is a stream of delimited messages: the job with its
// progress, then a sample of the steps. The sample always has the first and the last step, and the
// evaluated ones if they are few.

#include "coordinator/service/history.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>

#include "absl/time/time.h"
#include "coordinator/service/convert.h"
#include "proto/base/limits.h"
#include "proto/reporting/ledger_sum.h"

namespace stretto::service {
namespace {

namespace io = google::protobuf::io;
using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
using google::protobuf::util::SerializeDelimitedToZeroCopyStream;

constexpr size_t kRecentSteps = 10;
// A time that a client can print, whatever a worker says of its steps.
constexpr absl::Duration kLongestTimeLeft = absl::Hours(24 * 365 * 100);

// Between messages that have these fields of Job.
template <class From, class To>
void CopyChoices(const From& from, To* to) {
  to->set_merged_wgrads(from.merged_wgrads());
  *to->mutable_warm_ups() = from.warm_ups();
  to->set_epoch_sequences(from.epoch_sequences());
}

}  // namespace

JobHistory::JobHistory(const std::string& summary) {
  io::ArrayInputStream stream(summary.data(), static_cast<int>(summary.size()));
  v1alpha1::WatchJobResponse message;
  bool clean_eof = false;
  while (ParseDelimitedFromZeroCopyStream(&message, &stream, &clean_eof)) {
    if (message.has_job()) {
      Restore(message.job().progress());
      if (message.job().has_profile()) profile_ = message.job().profile();
      CopyChoices(message.job(), &choices_);
      samples_ = {message.job().samples().begin(), message.job().samples().end()};
    } else {
      steps_.emplace_back(message.step().step(), message.step().SerializeAsString());
      step_bytes_ += static_cast<int64_t>(steps_.back().second.size());
      attempt_ = message.step().attempt();
      if (message.step().has_evaluation()) NoteEvaluation(message.step());
    }
    message.Clear();
  }
}

void JobHistory::Restore(const v1alpha1::Progress& progress) {
  final_progress_ = progress;
  first_loss_ = progress.first_loss();
  skipped_updates_ = progress.skipped_updates();
  for (int rank = 0; rank < progress.rank_ledgers_size(); ++rank) {
    ledgers_[rank] = progress.rank_ledgers(rank);
  }
}

void JobHistory::DescribeEnded(const std::string& summary, v1alpha1::Job* job) {
  io::ArrayInputStream stream(summary.data(), static_cast<int>(summary.size()));
  v1alpha1::WatchJobResponse message;
  bool clean_eof = false;
  if (!ParseDelimitedFromZeroCopyStream(&message, &stream, &clean_eof)) return;
  *job->mutable_progress() = message.job().progress();
  if (message.job().has_profile()) *job->mutable_profile() = message.job().profile();
  CopyChoices(message.job(), job);
  *job->mutable_samples() = message.job().samples();
}

void JobHistory::NoteEvaluation(const v1alpha1::StepReport& step) {
  evaluated_.insert(step.step());
  last_evaluated_ = step;
}

void JobHistory::ForgetFrom(int64_t step) {
  v1alpha1::StepReport report;
  for (; !steps_.empty() && steps_.back().first >= step; steps_.pop_back()) {
    step_bytes_ -= static_cast<int64_t>(steps_.back().second.size());
    if (report.ParseFromString(steps_.back().second)) skipped_updates_ -= report.update_skipped();
  }
  evaluated_.erase(evaluated_.lower_bound(step), evaluated_.end());
  if (last_evaluated_.step() >= step) {
    last_evaluated_.Clear();
    const auto last = std::find_if(steps_.rbegin(), steps_.rend(), [this](const auto& known) {
      return !evaluated_.empty() && known.first == *evaluated_.rbegin();
    });
    if (last != steps_.rend()) last_evaluated_.ParseFromString(last->second);
  }
  recent_.clear();
}

void JobHistory::AddStep(int32_t rank, const v1alpha1::StepReport& step) {
  final_progress_.reset();
  AddLedger(step.ledger(), &ledgers_[rank]);
  if (rank != 0) return;
  if (step.attempt() > attempt_) {
    ForgetFrom(step.step());
    attempt_ = step.attempt();
  }
  if (!steps_.empty() && step.step() <= steps_.back().first) return;
  if (steps_.empty()) first_loss_ = step.loss();
  steps_.emplace_back(step.step(), step.SerializeAsString());
  if (step.has_evaluation()) NoteEvaluation(step);
  step_bytes_ += static_cast<int64_t>(steps_.back().second.size());
  while (steps_.size() > kMaxSteps || step_bytes_ > limits::kHistoryBytes.value) {
    step_bytes_ -= static_cast<int64_t>(steps_.front().second.size());
    evaluated_.erase(steps_.front().first);
    steps_.pop_front();
  }
  recent_.push_back(step);
  recent_.back().clear_ledger();
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  if (step.update_skipped()) ++skipped_updates_;
}

void JobHistory::AddDropped(int32_t rank, const v1alpha1::Ledger& ledger) {
  final_progress_.reset();
  AddLedger(ledger, &ledgers_[rank]);
}

std::optional<v1alpha1::StepReport> JobHistory::NextStep(int64_t step) const {
  const auto it =
      std::upper_bound(steps_.begin(), steps_.end(), step,
                       [](int64_t value, const auto& entry) { return value < entry.first; });
  if (it == steps_.end()) return std::nullopt;
  v1alpha1::StepReport report;
  report.ParseFromString(it->second);
  return report;
}

v1alpha1::Progress JobHistory::Live(const coordinator::JobRecord& record) const {
  v1alpha1::Progress progress;
  progress.set_steps(record.steps_done());
  progress.set_total_steps(record.total_steps);
  progress.set_last_checkpoint(record.last_checkpoint);
  progress.set_best_checkpoint(record.best_checkpoint);
  progress.set_first_loss(first_loss_);
  progress.set_skipped_updates(skipped_updates_);
  if (!recent_.empty()) {
    double seconds = 0, recent_tokens = 0;
    for (const v1alpha1::StepReport& step : recent_) {
      seconds += step.wall_seconds();
      recent_tokens += static_cast<double>(step.tokens());
    }
    const v1alpha1::StepReport& last = recent_.back();
    progress.set_last_loss(last.loss());
    // Every step has the same number of tokens, including those of an earlier run that this job
    // continues.
    int64_t tokens = 0;
    if (__builtin_mul_overflow(last.step(), last.tokens(), &tokens)) tokens = INT64_MAX;
    progress.set_tokens(tokens);
    if (seconds > 0) progress.set_tokens_per_second(recent_tokens / seconds);
    const int64_t left = std::max<int64_t>(record.total_steps - last.step(), 0);
    const double step_seconds = seconds / static_cast<double>(recent_.size());
    if (!coordinator::IsEnded(record.state)) {
      *progress.mutable_time_left() =
          ToProto(std::clamp(absl::Seconds(step_seconds * static_cast<double>(left)),
                             absl::ZeroDuration(), kLongestTimeLeft));
    }
  }
  if (last_evaluated_.has_evaluation()) {
    *progress.mutable_last_evaluation() = last_evaluated_.evaluation();
    progress.set_last_evaluation_step(last_evaluated_.step());
  }
  for (const auto& [rank, ledger] : ledgers_) {
    if (rank == 0) *progress.mutable_ledger() = ledger;
    while (progress.rank_ledgers_size() < rank) progress.add_rank_ledgers();
    *progress.add_rank_ledgers() = ledger;
  }
  return progress;
}

void JobHistory::AddSamples(const v1alpha1::Samples& samples) {
  while (!samples_.empty() && samples_.back().step() >= samples.step()) samples_.pop_back();
  samples_.push_back(samples);
  int64_t bytes = 0;
  for (const v1alpha1::Samples& kept : samples_) bytes += static_cast<int64_t>(kept.ByteSizeLong());
  while (!samples_.empty() && (samples_.size() > kMaxSamples || bytes > kMaxSampleBytes)) {
    bytes -= static_cast<int64_t>(samples_.front().ByteSizeLong());
    samples_.pop_front();
  }
}

void JobHistory::SetChoices(const v1alpha1::RankPrepared& prepared) {
  CopyChoices(prepared, &choices_);
}

void JobHistory::Describe(const coordinator::JobRecord& record, v1alpha1::Job* job) const {
  *job->mutable_progress() = final_progress_ ? *final_progress_ : Live(record);
  job->mutable_progress()->set_total_steps(record.total_steps);  // a resume may have added some
  if (profile_) *job->mutable_profile() = *profile_;
  CopyChoices(choices_, job);
  *job->mutable_samples() = {samples_.begin(), samples_.end()};
}

std::set<size_t> JobHistory::StepsOfCurve(size_t most) const {
  std::set<size_t> chosen;
  if (evaluated_.size() <= most / 2) {
    for (size_t i = 0; i < steps_.size() && chosen.size() < evaluated_.size(); ++i) {
      if (evaluated_.count(steps_[i].first) > 0) chosen.insert(i);
    }
  }
  const size_t count = std::min(steps_.size(), most - chosen.size());
  for (size_t i = 0; i < count; ++i) {
    // i = 0 is the first step and i = count - 1 the last; the others are evenly spread.
    chosen.insert(count > 1 ? i * (steps_.size() - 1) / (count - 1) : 0);
  }
  return chosen;
}

std::vector<std::string> JobHistory::Curve(size_t most) const {
  std::vector<std::string> curve;
  v1alpha1::StepReport step;
  for (size_t index : StepsOfCurve(most)) {
    step.ParseFromString(steps_[index].second);
    step.clear_ledger();
    curve.push_back(step.SerializeAsString());
  }
  return curve;
}

std::vector<std::string> JobHistory::Newest(size_t most) const {
  std::vector<std::string> newest;
  for (size_t i = steps_.size() - std::min(steps_.size(), most); i < steps_.size(); ++i) {
    newest.push_back(steps_[i].second);
  }
  return newest;
}

std::string JobHistory::Summary(const coordinator::JobRecord& record) const {
  std::string out;
  io::StringOutputStream stream(&out);
  v1alpha1::WatchJobResponse message;
  Describe(record, message.mutable_job());
  SerializeDelimitedToZeroCopyStream(message, &stream);
  for (size_t index : StepsOfCurve(kMaxSummarySteps)) {
    message.mutable_step()->ParseFromString(steps_[index].second);
    message.mutable_step()->clear_ledger();
    SerializeDelimitedToZeroCopyStream(message, &stream);
  }
  // The stream may have reserved more than it wrote.
  return out.substr(0, stream.ByteCount());
}

std::string JobHistory::Shortened(const std::string& summary) {
  v1alpha1::Job job;
  DescribeEnded(summary, &job);
  v1alpha1::WatchJobResponse message;
  v1alpha1::Progress& progress = *message.mutable_job()->mutable_progress();
  progress = job.progress();
  progress.clear_ledger();
  progress.clear_rank_ledgers();
  std::string out;
  io::StringOutputStream stream(&out);
  SerializeDelimitedToZeroCopyStream(message, &stream);
  return out.substr(0, stream.ByteCount());
}

void Histories::Describe(const coordinator::JobRecord& record, v1alpha1::Job* job) {
  // Of a retired job nothing else counts, though it is forgotten here only a little later.
  const bool ended = coordinator::IsEnded(record.state) && by_uid_.count(record.uid) == 0;
  if (record.retire_time || ended) {
    return JobHistory::DescribeEnded(record.summary.str(), job);
  }
  Of(record).Describe(record, job);
}

void Histories::Forget(const std::string& uid) {
  ended_.remove(uid);
  by_uid_.erase(uid);
}

JobHistory& Histories::Of(const coordinator::JobRecord& record) {
  auto it = by_uid_.find(record.uid);
  const bool known = it != by_uid_.end();
  ended_.remove(record.uid);
  if (!known) it = by_uid_.emplace(record.uid, JobHistory(record.summary.str())).first;
  if (!coordinator::IsEnded(record.state)) return it->second;
  ended_.push_front(record.uid);
  if (ended_.size() > kMaxEnded) {
    by_uid_.erase(ended_.back());
    ended_.pop_back();
  }
  return it->second;
}

}  // namespace stretto::service
