// SPDX-License-Identifier: Apache-2.0

// Which lines of a log somebody wants. The first line of an input has `since` in seconds and
// nanoseconds and `tail_lines`, the second one is `grep`, and the others are the log. What is taken
// is a part of it in whole lines, and the same wherever the log is cut between two lines.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/logs/line_filter.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(stretto::fuzz::TextOf(data, size), absl::MaxSplits('\n', 2));
  const std::vector<absl::string_view> numbers = absl::StrSplit(parts[0], ' ');
  stretto::v1alpha1::LogSelection selection;
  int64_t seconds = 0, lines = 0;
  int32_t nanoseconds = 0;
  if (absl::SimpleAtoi(numbers[0], &seconds)) selection.mutable_since()->set_seconds(seconds);
  if (numbers.size() > 1 && absl::SimpleAtoi(numbers[1], &nanoseconds))
    selection.mutable_since()->set_nanos(nanoseconds);
  if (numbers.size() > 2 && absl::SimpleAtoi(numbers[2], &lines)) selection.set_tail_lines(lines);
  if (parts.size() > 1) selection.set_grep(std::string(parts[1]));
  const absl::string_view log = parts.size() > 2 ? parts[2] : absl::string_view();

  auto filter = stretto::LineFilter::Make(selection);
  STRETTO_CHECK(stretto::IsPrintable(filter.status().message()));
  if (!filter.ok()) return 0;
  const std::string whole = filter->Take(log);
  auto by_line = stretto::LineFilter::Make(selection);
  stretto::LineFilter moved = *std::move(by_line);
  std::string taken;
  for (absl::string_view rest = log; !rest.empty();) {
    const size_t end = rest.find('\n');
    const size_t bytes = end == rest.npos ? rest.size() : end + 1;
    absl::StrAppend(&taken, moved.Take(rest.substr(0, bytes)));
    rest.remove_prefix(bytes);
  }
  STRETTO_CHECK(taken == whole && whole.size() <= log.size());
  stretto::LineFilter all;
  STRETTO_CHECK(all.Take(log) == std::string(log));
  return 0;
}
