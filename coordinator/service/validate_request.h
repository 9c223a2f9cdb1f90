// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of requests other than the spec. Pure; errors are INVALID_ARGUMENT naming the field.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

using spec::Quoted;

// Checks job_id, request_id and the presence of a spec.
absl::Status ValidateCreateRequest(const v1alpha1::CreateJobRequest& request);

// The ID of "COLLECTION/ID" ("jobs", "workers"), from the field "name".
absl::StatusOr<std::string> ParseName(absl::string_view collection, absl::string_view name);

// 0 becomes 50, more than 1000 becomes 1000, negative is refused.
absl::StatusOr<int> PageSize(int32_t page_size);

}  // namespace stretto::service
