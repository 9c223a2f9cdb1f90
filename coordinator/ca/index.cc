// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ca/index.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"

namespace stretto::ca {
namespace {

constexpr char kTimeForm[] = "%Y-%m-%dT%H:%M:%SZ";

std::string TimeText(absl::Time time) {
  return absl::FormatTime(kTimeForm, time, absl::UTCTimeZone());
}

absl::Status ReadTime(absl::string_view text, absl::Time* time) {
  std::string error;
  if (absl::ParseTime(kTimeForm, text, time, &error)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("found \"", absl::CHexEscape(text),
                                          "\", expected a time like 2026-11-26T09:30:00Z"));
}

absl::Status ReadIssued(const std::vector<std::string>& words, Index* index) {
  Issued issued{.serial = words[2], .name = words[3], .alternative_names = words[6]};
  RETURN_IF_ERROR(ReadTime(words[4], &issued.begin));
  RETURN_IF_ERROR(ReadTime(words[5], &issued.end));
  index->issued.push_back(std::move(issued));
  return absl::OkStatus();
}

absl::Status ReadRevoked(const std::vector<std::string>& words, Index* index) {
  absl::Time time;
  RETURN_IF_ERROR(ReadTime(words[0], &time));
  const auto found = std::find_if(index->issued.begin(), index->issued.end(),
                                  [&](const Issued& one) { return one.serial == words[2]; });
  if (found == index->issued.end()) {
    return absl::DataLossError(absl::StrCat("found certificate ", absl::CHexEscape(words[2]),
                                            " revoked, expected one that was issued before"));
  }
  found->revoked = time;
  found->reason = words[3];
  return absl::OkStatus();
}

absl::Status ReadLine(absl::string_view line, Index* index) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() == 7 && words[1] == "issued") return ReadIssued(words, index);
  if (words.size() == 4 && words[1] == "revoked") return ReadRevoked(words, index);
  return absl::DataLossError(absl::StrCat(
      "found \"", absl::CHexEscape(line.substr(0, 80)),
      "\", expected \"TIME issued SERIAL NAME BEGIN END NAMES\" or \"TIME revoked SERIAL "
      "REASON\""));
}

}  // namespace

std::string IssuedLine(const Issued& issued, absl::Time now) {
  return absl::StrJoin({TimeText(now), std::string("issued"), issued.serial, issued.name,
                        TimeText(issued.begin), TimeText(issued.end), issued.alternative_names},
                       " ") +
         "\n";
}

std::string RevokedLine(const std::string& serial, const std::string& reason, absl::Time now) {
  return absl::StrCat(TimeText(now), " revoked ", serial, " ", reason, "\n");
}

absl::StatusOr<Index> ParseIndex(absl::string_view text) {
  Index index;
  while (true) {
    const size_t end = text.find('\n', static_cast<size_t>(index.whole));
    if (end == text.npos) return index;
    const auto begin = static_cast<size_t>(index.whole);
    const absl::Status status = ReadLine(text.substr(begin, end - begin), &index);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(index.lines + 1, ": ", status.message()));
    }
    index.whole = static_cast<int64_t>(end) + 1;
    ++index.lines;
  }
}

}  // namespace stretto::ca
