// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs as people read them. Pure; `now` is an argument.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// "RUNNING"; with `color`, green, red or yellow.
std::string StateText(v1alpha1::Job::State state, bool color);
bool HasEnded(v1alpha1::Job::State state);
// The states as people type them: "pending", "preparing", ...
std::vector<std::string> JobStates();

// One line each for `job list` and `job get`.
std::string JobTable(const std::vector<v1alpha1::Job>& jobs, absl::Time now);

// The full description of one job: state, conditions, placement, first failure, ledger and profile.
std::string DescribeJob(const v1alpha1::Job& job, absl::Time now, bool color);

// The summary of a job that has ended: outcome, times and ledger.
std::string Summary(const v1alpha1::Job& job, bool color);

// "rank 1 on worker-2 was killed by signal 9 (Killed) at step 12, backward".
std::string FailureText(const v1alpha1::FirstFailure& failure);
// The same without its message and last operation, on one line.
std::string BriefFailureText(const v1alpha1::FirstFailure& failure);

// "sample of step 20: [Once upon a time] there was", a line for each text.
std::vector<std::string> SampleLines(const v1alpha1::Samples& samples);

// Whether a message repeats that of the first failure, which is shown once.
bool SaysFirstFailure(const v1alpha1::Job& job, const std::string& text);

// Returns the text up to its first line break.
std::string FirstLine(const std::string& text);

// Returns the message of the newest condition that explains the state of the job; empty if none
// does.
std::string WhyText(const v1alpha1::Job& job);

}  // namespace stretto::cli
