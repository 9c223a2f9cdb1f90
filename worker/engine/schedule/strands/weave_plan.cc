// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/strands/weave_plan.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr absl::string_view kHeader = "weave f0|b0 pace=";
constexpr int kMaxNumber = 1 << 20;  // more than any model has layers or slices

// Leaves `number` as it is if the text is none.
bool ParseNumber(absl::string_view text, int* number) {
  int value = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;  // no sign, no space
  if (!absl::SimpleAtoi(text, &value) || value > kMaxNumber) return false;
  *number = value;
  return true;
}

absl::Status ErrorAt(size_t line, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("weave plan, line ", line, ": found ", found, ", expected ", expected));
}

std::string Quoted(absl::string_view text) { return absl::StrCat("'", text, "'"); }

absl::StatusOr<WeaveLine> ParseLine(size_t number, absl::string_view text) {
  std::vector<std::string> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (parts.empty() || (parts[0] != "f" && parts[0] != "b")) {
    return ErrorAt(number, parts.empty() ? "nothing" : Quoted(parts[0]), "'f' or 'b'");
  }
  WeaveLine line = {.strand = parts[0] == "f" ? Strand::kForward : Strand::kBackward};
  parts.erase(parts.begin());
  // From the end: the slice, then the layer.
  for (const auto& [letter, value] : {std::pair{'s', &line.slice}, {'L', &line.layer}}) {
    if (parts.empty() || parts.back()[0] != letter) continue;
    if (ParseNumber(parts.back().substr(1), value)) parts.pop_back();
  }
  if (parts.empty()) return ErrorAt(number, "no word", "words to play");
  for (const std::string& word : parts) {
    const bool name =
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.0123456789") == std::string::npos;
    if (!name) return ErrorAt(number, Quoted(word), "words, then the layer, then the slice");
  }
  line.words = std::move(parts);
  return line;
}

}  // namespace

std::string PrintWeavePlan(const WeavePlan& plan) {
  std::string text = absl::StrCat(kHeader, plan.pace, "\n");
  for (const WeaveLine& line : plan.lines) {
    absl::StrAppend(&text, line.strand == Strand::kForward ? "  f " : "  b ",
                    absl::StrJoin(line.words, " "));
    if (line.layer >= 0) absl::StrAppend(&text, " L", line.layer);
    if (line.slice >= 0) absl::StrAppend(&text, " s", line.slice);
    text += '\n';
  }
  return text;
}

absl::StatusOr<WeavePlan> ParseWeavePlan(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  WeavePlan plan;
  absl::string_view pace = lines.empty() ? "" : absl::StripAsciiWhitespace(lines[0]);
  if (!absl::ConsumePrefix(&pace, kHeader) || !ParseNumber(pace, &plan.pace)) {
    return ErrorAt(1, Quoted(lines.empty() ? "" : lines[0]),
                   absl::StrCat(Quoted(kHeader), " and a number of layers, at least 0"));
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    ASSIGN_OR_RETURN(plan.lines.emplace_back(), ParseLine(i + 1, lines[i]));
  }
  return plan;
}

absl::Status WeavePlanError(size_t index, absl::string_view found, absl::string_view expected) {
  return ErrorAt(index + 2, found, expected);
}

}  // namespace stretto
