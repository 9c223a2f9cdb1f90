// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/figures.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

constexpr size_t kRecent = 10;
constexpr int64_t kMilestones = 20;

}  // namespace

void ProgressTracker::Add(const v1alpha1::Job& job) {
  total_ = std::max(job.progress().total_steps(), job.spec().steps());
  emulated_ = job.spec().has_emulated_link();
}

void ProgressTracker::Add(const v1alpha1::StepReport& step) {
  step_ = step.step();
  loss_ = step.loss();
  recent_.push_back(step);
  if (recent_.size() > kRecent) recent_.pop_front();
}

std::string ProgressTracker::Line() const {
  std::string line = absl::StrCat("step ", step_, "/", total_);
  if (recent_.empty()) return line;
  double seconds = 0, tokens = 0;
  v1alpha1::Ledger communication;
  for (const v1alpha1::StepReport& step : recent_) {
    seconds += step.wall_seconds();
    tokens += static_cast<double>(step.tokens());
    communication.set_communication_seconds(communication.communication_seconds() +
                                            step.ledger().communication_seconds());
    communication.set_hidden_seconds(communication.hidden_seconds() +
                                     step.ledger().hidden_seconds());
  }
  absl::StrAppend(&line, "  loss ", Loss(loss_));
  if (recent_.back().has_evaluation()) {
    absl::StrAppend(&line, "  ", HeldOutText(recent_.back().evaluation()));
  }
  if (seconds > 0) absl::StrAppend(&line, "  ", FormatCount(tokens / seconds), " tokens/s");
  absl::StrAppend(&line, "  overlap ", Percent(OverlapRatio(communication)),
                  emulated_ ? " (emulated link)" : "");
  if (recent_.back().update_skipped()) {
    line += "  update skipped: gradient norm not finite";
  } else if (recent_.back().norm_not_finite()) {
    line += "  gradient norm not finite";
  }
  if (total_ > step_ && seconds > 0) {
    const double left =
        seconds / static_cast<double>(recent_.size()) * static_cast<double>(total_ - step_);
    absl::StrAppend(&line, "  ", Seconds(left), " left");
  }
  return line;
}

bool ProgressTracker::IsMilestone() const {
  const int64_t every = std::max<int64_t>(1, total_ / kMilestones);
  return step_ == 1 || step_ == total_ || step_ % every == 0 || recent_.back().update_skipped() ||
         recent_.back().norm_not_finite() || recent_.back().has_evaluation();
}

std::vector<v1alpha1::Samples> SampleTracker::NewsOf(const v1alpha1::Job& job) {
  std::vector<v1alpha1::Samples> news;
  for (const v1alpha1::Samples& samples : job.samples()) {
    if (samples.step() > step_) news.push_back(samples);
  }
  if (!news.empty()) step_ = news.back().step();
  return news;
}

}  // namespace stretto::cli
