// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors as callers of our RPCs see them (AIP-193). Inside the coordinator an error is an
// absl::Status. Only this file converts it to a grpc::Status, which carries google.rpc.Status with
// exactly one ErrorInfo and, if fields are at fault, one BadRequest.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/spec/violations.h"

namespace grpc {
class Status;
}

namespace stretto::service {

inline constexpr char kErrorDomain[] = "stretto.dev";

using spec::FieldViolation;

// Returns INVALID_ARGUMENT with reason INVALID_FIELD. The message is "field: description" of the
// first violation and the number of others; BadRequest has all of them. Needs at least one
// violation.
absl::Status FieldErrors(const std::vector<FieldViolation>& violations);
absl::Status FieldError(absl::string_view field, absl::string_view description);

// Returns `status` with ErrorInfo{reason, kErrorDomain, metadata}, replacing an earlier ErrorInfo.
// `reason` is UPPER_SNAKE_CASE, at most 63 characters.
absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::vector<std::pair<std::string, std::string>>& metadata = {});

// The only conversion. An error without ErrorInfo gets the name of its code as reason.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace stretto::service
