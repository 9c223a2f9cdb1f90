// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors as callers of our RPCs see them (AIP-193). Inside the coordinator an error is an
// absl::Status; on its way out it becomes, here and nowhere else, a grpc::Status that carries
// google.rpc.Status with exactly one ErrorInfo and, where fields are at fault, one BadRequest.

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

// INVALID_ARGUMENT whose message is "field: description" of the first violation (and how many more
// there are), with all of them in BadRequest. Needs at least one violation. Reason INVALID_FIELD.
absl::Status FieldErrors(const std::vector<FieldViolation>& violations);
absl::Status FieldError(absl::string_view field, absl::string_view description);

// `status` with ErrorInfo{reason, kErrorDomain, metadata}, replacing one it may have. `reason` is
// UPPER_SNAKE_CASE, at most 63 characters.
absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::vector<std::pair<std::string, std::string>>& metadata = {});

// The one conversion. An error without ErrorInfo gets its code's name as reason.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace stretto::service
