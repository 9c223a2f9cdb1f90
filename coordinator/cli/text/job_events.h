// SPDX-License-Identifier: Apache-2.0
#pragma once
// The history of a job, as far as the job itself records it. Pure.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct JobEvent {
  absl::Time time;
  std::string text;  // one line
};

// Whether a view has the message of the first failure in another place, so that its event does not
// repeat it.
enum class FailureShown { kAbove, kHere };

// Returns, oldest first: creation, the last change of each condition, start, first failure and end.
std::vector<JobEvent> EventsOf(const v1alpha1::Job& job, FailureShown failure);

// A line per event, "2023-11-14 22:13:20 UTC  41.3s  Scheduled": its time, and the time since the
// first.
std::string EventTable(const std::vector<JobEvent>& events);

}  // namespace stretto::cli
