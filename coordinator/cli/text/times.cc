// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/times.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stretto::cli {

std::string Age(const google::protobuf::Timestamp& time, absl::Time now) {
  if (time.seconds() == 0) return "-";
  const absl::Duration age = std::max(now - ToTime(time), absl::ZeroDuration());
  if (age < absl::Minutes(2)) return absl::StrCat(absl::ToInt64Seconds(age), "s");
  if (age < absl::Hours(2)) return absl::StrCat(absl::ToInt64Minutes(age), "m");
  if (age < absl::Hours(48)) return absl::StrCat(absl::ToInt64Hours(age), "h");
  return absl::StrCat(absl::ToInt64Hours(age) / 24, "d");
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ToTime(time), absl::UTCTimeZone());
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(absl::ToUnixSeconds(time));
  timestamp.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(timestamp.seconds()))));
  return timestamp;
}

absl::StatusOr<absl::Time> ParsePast(const std::string& text, absl::Time now) {
  absl::Duration age;
  // Days, which absl does not know, come first.
  const size_t days_end = text.find('d');
  int32_t days = 0;
  const bool has_days =
      days_end != std::string::npos && absl::SimpleAtoi(text.substr(0, days_end), &days);
  const std::string rest = has_days ? text.substr(days_end + 1) : text;
  const bool is_age = (has_days && rest.empty()) || absl::ParseDuration(rest, &age);
  age += days * absl::Hours(24);
  if (is_age && days >= 0 && age >= absl::ZeroDuration() && age < absl::InfiniteDuration())
    return now - age;
  absl::Time time;
  std::string why;
  for (const char* form : {absl::RFC3339_full, "%Y-%m-%d %H:%M:%S UTC"}) {
    if (!is_age && absl::ParseTime(form, text, &time, &why) && time > absl::UnixEpoch() &&
        time < absl::InfiniteFuture())
      return time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("found \"", text,
                   "\", expected an age such as 90s, 1h30m or 2d, or a time such as "
                   "2026-01-02T03:04:05Z"));
}

}  // namespace stretto::cli
