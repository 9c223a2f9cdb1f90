// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conditions of jobs that tests write.

#include <cstdint>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// `time`: seconds since 1970.
inline void AddCondition(v1alpha1::Job* job, const char* type, v1alpha1::Condition::Status status,
                         int64_t time, const char* reason, const char* message) {
  v1alpha1::Condition& condition = *job->add_conditions();
  condition.set_type(type);
  condition.set_status(status);
  condition.set_reason(reason);
  condition.set_message(message);
  condition.mutable_last_transition_time()->set_seconds(time);
}

}  // namespace stretto::cli
