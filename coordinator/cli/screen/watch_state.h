// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state behind `stretto job watch`, built from the events of a job. Pure: time is an argument.

#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cli/screen/loss_curve.h"
#include "coordinator/cli/screen/progress.h"
#include "coordinator/cli/text/job_events.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// A value; one thread at a time.
struct WatchState {
  v1alpha1::Job job = {};
  std::vector<CurvePoint> losses = {}, held_out = {};
  std::deque<v1alpha1::StepReport> recent = {};  // the newest, at most kRecentSteps
  v1alpha1::StepReport evaluated = {};           // the newest with an evaluation; step 0: none
  std::deque<double> speeds = {};                // tokens per second of steps, at most kSpeeds
  std::deque<JobEvent> seen = {};  // past events that the job does not keep, at most kSeen
  SampleTracker samples = {};      // texts of the model, which are such events
  bool heard = false;              // the coordinator has sent the job
  std::string lost = "";           // why there is no coordinator; empty while there is one

  static constexpr size_t kRecentSteps = 10, kSpeeds = 512, kSeen = 100;

  void AddJob(const v1alpha1::Job& job, absl::Time now);
  // Adds an answer to a query in between: progress changes without an event.
  void AddProgress(const v1alpha1::Job& job, absl::Time now);
  void AddStep(const v1alpha1::StepReport& step);
  // "lost the coordinator ...", "reconnected ...".
  void AddNotice(const std::string& text, absl::Time now);

 private:
  void Note(const std::string& text, absl::Time now);
};

}  // namespace stretto::cli
