// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/records.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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
    case JobState::kSuspending:
      return "SUSPENDING";
    case JobState::kSuspended:
      return "SUSPENDED";
  }
  STRETTO_CHECK(false);
}

bool IsEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool IsActive(JobState state) {
  return state != JobState::kPending && state != JobState::kSuspended && !IsEnded(state);
}

std::string FirstFailure::Text() const {
  return absl::StrCat("rank ", rank, " on worker ", worker, ": ", message);
}

int64_t JobRecord::steps_done() const {
  if (ranks.empty()) return attempts.empty() ? 0 : attempts.back().safe_step();
  int64_t steps = ranks.front().last_step;
  for (const RankRecord& rank : ranks) steps = std::min(steps, rank.last_step);
  return attempts.empty() ? steps : std::max(steps, attempts.back().from_step);
}

std::vector<RankSlot> JobRecord::slots() const {
  std::vector<RankSlot> slots;
  for (const RankRecord& rank : ranks) slots.push_back({rank.worker, rank.slot});
  return slots;
}

const Condition* JobRecord::FindCondition(const std::string& type) const {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

}  // namespace stretto::coordinator
