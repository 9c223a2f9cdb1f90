// SPDX-License-Identifier: Apache-2.0
#pragma once
// Points in time and durations as text, and from Protobuf. Pure.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace stretto::cli {

// Returns the time from `time` to `now`; "-" if it is not set.
std::string Age(const google::protobuf::Timestamp& time, absl::Time now);
// "2023-11-14 22:13:20 UTC"; "-" if it is not set.
std::string TimeText(const google::protobuf::Timestamp& time);

absl::Time ToTime(const google::protobuf::Timestamp& time);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

google::protobuf::Timestamp ToTimestamp(absl::Time time);

// Returns a time that a person gives as its age ("90s", "1h30m", "2d") or as itself: in RFC 3339
// ("2026-01-02T03:04:05Z"), or as TimeText. Errors: InvalidArgument "found ..., expected ...".
absl::StatusOr<absl::Time> ParsePast(const std::string& text, absl::Time now);

}  // namespace stretto::cli
