// SPDX-License-Identifier: Apache-2.0

// Times are compared as text, because those of a log have one form and one zone. RE2 matches in
// linear time, whatever the expression: it comes from a user and runs in a daemon.

#include "proto/logs/line_filter.h"

#include <re2/re2.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"

namespace stretto {
namespace {

constexpr char kTimeForm[] = "%Y-%m-%dT%H:%M:%E3SZ";
constexpr absl::string_view kTimeShape = "0000-00-00T00:00:00.000Z";
constexpr int64_t kMaxMatcherBytes = int64_t{1} << 20;

bool BeginsWithTime(absl::string_view line) {
  if (line.size() < kTimeShape.size()) return false;
  for (size_t i = 0; i < kTimeShape.size(); ++i) {
    const bool digit = kTimeShape[i] == '0';
    if (digit ? !absl::ascii_isdigit(static_cast<unsigned char>(line[i]))
              : line[i] != kTimeShape[i])
      return false;
  }
  return true;
}

absl::Status Refused(absl::string_view field, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": found ", found, ", expected ", expected));
}

}  // namespace

LineFilter::LineFilter() = default;
LineFilter::~LineFilter() = default;
LineFilter::LineFilter(LineFilter&&) = default;
LineFilter& LineFilter::operator=(LineFilter&&) = default;

absl::StatusOr<LineFilter> LineFilter::Make(const v1alpha1::LogSelection& selection) {
  LineFilter filter;
  if (selection.tail_lines() < 0 || selection.tail_lines() > limits::kTailLines.value) {
    return Refused("tail_lines", absl::StrCat(selection.tail_lines()),
                   absl::StrCat("0 to ", limits::kTailLines.value));
  }
  if (selection.has_since()) {
    const absl::Time since = absl::FromUnixSeconds(selection.since().seconds()) +
                             absl::Nanoseconds(selection.since().nanos());
    filter.since_ = absl::FormatTime(kTimeForm, since, absl::UTCTimeZone());
    filter.begun_ = false;
  }
  if (selection.grep().empty()) return filter;
  if (static_cast<int64_t>(selection.grep().size()) > limits::kGrepBytes.value) {
    return Refused("grep", absl::StrCat(selection.grep().size(), " bytes"),
                   absl::StrCat("at most ", limits::kGrepBytes.value));
  }
  re2::RE2::Options options(re2::RE2::Quiet);
  options.set_max_mem(kMaxMatcherBytes);
  filter.grep_ = std::make_unique<re2::RE2>(selection.grep(), options);
  if (filter.grep_->ok()) return filter;
  return Refused("grep", absl::StrCat("\"", Escaped(selection.grep()), "\""),
                 absl::StrCat("a regular expression of RE2: ", Escaped(filter.grep_->error())));
}

bool LineFilter::Selects(absl::string_view line) {
  if (!begun_ && BeginsWithTime(line)) begun_ = line.substr(0, kTimeShape.size()) >= since_;
  return begun_ && (grep_ == nullptr ||
                    re2::RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *grep_));
}

std::string LineFilter::Take(absl::string_view lines) {
  if (begun_ && grep_ == nullptr) return std::string(lines);
  std::string taken;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const size_t size = end == lines.npos ? lines.size() : end + 1;
    if (Selects(lines.substr(0, end == lines.npos ? size : end)))
      absl::StrAppend(&taken, lines.substr(0, size));
    lines.remove_prefix(size);
  }
  return taken;
}

}  // namespace stretto
