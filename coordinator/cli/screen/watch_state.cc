// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/watch_state.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/job_text.h"

namespace stretto::cli {

void WatchState::AddJob(const v1alpha1::Job& news, absl::Time now) {
  lost.clear();
  const std::string checkpoint = news.progress().last_checkpoint();
  if (heard && checkpoint != job.progress().last_checkpoint()) {
    Note(absl::StrCat("checkpoint ", checkpoint), now);
  }
  const std::vector<v1alpha1::Samples> texts = samples.NewsOf(news);
  for (const v1alpha1::Samples& of_step : texts) {
    if (!heard && &of_step != &texts.back()) continue;  // those before this began
    for (const std::string& text : SampleLines(of_step)) Note(text, now);
  }
  heard = true;
  job = news;
}

void WatchState::AddProgress(const v1alpha1::Job& news, absl::Time now) {
  if (!heard || news.uid() != job.uid()) return;
  v1alpha1::Job merged = job;
  *merged.mutable_progress() = news.progress();
  const std::string still_lost = lost;
  AddJob(merged, now);
  lost = still_lost;
}

void WatchState::AddStep(const v1alpha1::StepReport& step) {
  losses.push_back({static_cast<double>(step.step()), step.loss()});
  recent.push_back(step);
  if (step.has_evaluation()) {
    evaluated = step;
    held_out.push_back({static_cast<double>(step.step()), step.evaluation().loss()});
  }
  if (recent.size() > kRecentSteps) recent.pop_front();
  if (step.wall_seconds() > 0) {
    speeds.push_back(static_cast<double>(step.tokens()) / step.wall_seconds());
  }
  if (speeds.size() > kSpeeds) speeds.pop_front();
}

void WatchState::AddNotice(const std::string& text, absl::Time now) {
  lost = text;  // until the next news of the job
  Note(text, now);
}

void WatchState::Note(const std::string& text, absl::Time now) {
  seen.push_back({now, text});
  if (seen.size() > kSeen) seen.pop_front();
}

}  // namespace stretto::cli
