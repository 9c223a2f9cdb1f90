// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of requests except for the spec. Pure; errors are INVALID_ARGUMENT and name the field.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/job_filter.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

using spec::Quoted;

// Checks job_id, request_id, the presence of a spec and its length, and that the request has no
// field that this build does not know: it would be stored, sent to workers, and mean nothing.
absl::Status ValidateCreateRequest(const v1alpha1::CreateJobRequest& request,
                                   int64_t max_spec_bytes);

// Refuses a request with fields that this build does not know. For those that choose something: a
// newer client would get what it has not asked for.
absl::Status RefuseUnknownFields(const google::protobuf::Message& request);

// Returns the ID of "COLLECTION/ID" ("jobs", "workers") in field "name".
absl::StatusOr<std::string> ParseName(absl::string_view collection, absl::string_view name);

// The jobs that a request asks for.
absl::StatusOr<coordinator::JobFilter> FilterOf(const v1alpha1::ListJobsRequest& request);

// 0 becomes 50, more than 1000 becomes 1000, and a negative size is an error.
absl::StatusOr<int> PageSize(int32_t page_size);

}  // namespace stretto::service
