// SPDX-License-Identifier: Apache-2.0
#pragma once
// Points in time and durations as text, and from Protobuf. Pure.

#include <string>

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

}  // namespace stretto::cli
