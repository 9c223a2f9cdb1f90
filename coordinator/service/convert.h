// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts between the messages on the wire and the core's plain structs. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/event.h"
#include "coordinator/core/records.h"
#include "stretto/v1alpha1/job.pb.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {

google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);
absl::Time FromProto(const google::protobuf::Timestamp& time);

// Converts all of a job except progress and profile, which the core does not have.
v1alpha1::Job ToProto(const coordinator::JobRecord& record);

v1alpha1::JobEvent ToProto(const coordinator::JobEvent& event);

v1alpha1::Worker ToProto(const coordinator::Worker& worker, int32_t free_slots,
                         const std::vector<std::string>& job_ids);

// CloseSession has no message: the caller ends the stream instead.
v1alpha1::CoordinatorMessage ToProto(const coordinator::Send& send);

coordinator::WorkerRegistered FromProto(const v1alpha1::Register& message, int64_t session);

coordinator::WorkerHeartbeat FromProto(const v1alpha1::Heartbeat& message,
                                       const std::string& worker, int64_t session);

coordinator::RankPositions FromProto(const v1alpha1::RankPositions& message,
                                     const std::string& worker, int64_t session);

// Errors: INVALID_ARGUMENT if the report is of no known kind.
absl::StatusOr<coordinator::RankReported> FromProto(const v1alpha1::RankReport& message,
                                                    const std::string& worker, int64_t session);

}  // namespace stretto::service
