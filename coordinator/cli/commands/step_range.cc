// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/step_range.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/printable.h"

namespace stretto::cli {

absl::StatusOr<StepRange> ParseSteps(const std::string& text) {
  std::vector<std::string> ends = absl::StrSplit(text, ':');
  if (ends.size() == 1) ends.push_back(ends[0]);
  StepRange range;
  bool good = ends.size() == 2 && (!ends[0].empty() || !ends[1].empty());
  for (const auto& [end, value] : {std::pair{0, &range.first}, std::pair{1, &range.last}}) {
    if (!good || ends[end].empty()) continue;
    good = absl::SimpleAtoi(ends[end], value) && *value > 0;
  }
  if (good && (range.last == 0 || range.first <= range.last)) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("--steps: found ", Escaped(text), ", expected A:B, A:, :B or A, from 1 on"));
}

}  // namespace stretto::cli
