// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/records.h"

#include <algorithm>

#include "proto/base/check.h"

namespace stretto::coordinator {

const char* JobStateName(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kPreparing:
      return "PREPARING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  STRETTO_CHECK(false);
}

bool IsEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool IsActive(JobState state) { return state != JobState::kPending && !IsEnded(state); }

int64_t JobRecord::steps_done() const {
  if (ranks.empty()) return 0;
  int64_t steps = ranks.front().last_step;
  for (const RankRecord& rank : ranks) steps = std::min(steps, rank.last_step);
  return steps;
}

const Condition* JobRecord::FindCondition(const std::string& type) const {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

}  // namespace stretto::coordinator
