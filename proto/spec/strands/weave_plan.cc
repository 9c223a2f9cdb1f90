// SPDX-License-Identifier: Apache-2.0
// Reads plans line by line. A line that begins with "weave" starts the plan of another cell; every
// other line plays words and is read from its end: the slice, then the layer, then the words.
// Numbers are digits alone, so that print and parse are inverse.

#include "proto/spec/strands/weave_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr absl::string_view kHeader = "weave", kPace = "pace=", kBarrier = "|";
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
      absl::StrCat("found ", found, " in line ", line, " of the plan, expected ", expected));
}

// "f0|b0".
std::string CellName(int forward_chunk, int backward_chunk) {
  return absl::StrCat("f", forward_chunk, "|b", backward_chunk);
}

std::string Header(const WeavePlan& plan) {
  return absl::StrCat(kHeader, " ", CellName(plan.forward_chunk, plan.backward_chunk), " ", kPace);
}

// The parts of a line. White space separates them.
std::vector<absl::string_view> PartsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

// "weave f0|b0 pace=1".
bool ParseHeader(std::vector<absl::string_view> parts, WeavePlan* plan) {
  if (parts.size() != 3 || parts[0] != kHeader) return false;
  std::vector<absl::string_view> cell = absl::StrSplit(parts[1], '|');
  return cell.size() == 2 && absl::ConsumePrefix(&cell[0], "f") &&
         absl::ConsumePrefix(&cell[1], "b") && ParseNumber(cell[0], &plan->forward_chunk) &&
         ParseNumber(cell[1], &plan->backward_chunk) && absl::ConsumePrefix(&parts[2], kPace) &&
         ParseNumber(parts[2], &plan->pace);
}

// At most as much of the text as a message may repeat.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMost = 80;
  return absl::StrCat("'", Escaped(Prefix(text, kMost)), text.size() > kMost ? "..." : "", "'");
}

absl::StatusOr<WeaveLine> ParseLine(size_t number, std::vector<absl::string_view> parts) {
  if (parts.size() == 1 && parts[0] == kBarrier) return WeaveLine();
  if (parts.empty() || (parts[0] != "f" && parts[0] != "b")) {
    return ErrorAt(number, parts.empty() ? "nothing" : Quoted(parts[0]),
                   "'f', 'b' or a barrier, '|' alone");
  }
  WeaveLine line = {.strand = parts[0] == "f" ? Strand::kForward : Strand::kBackward};
  parts.erase(parts.begin());
  // From the end: the slice, then the layer.
  for (const auto& [letter, value] : {std::pair{'s', &line.slice}, {'L', &line.layer}}) {
    if (parts.empty() || parts.back()[0] != letter) continue;
    if (ParseNumber(parts.back().substr(1), value)) parts.pop_back();
  }
  if (parts.empty()) return ErrorAt(number, "no word", "words to play");
  for (absl::string_view word : parts) {
    int slice = 0;
    const bool name = word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.0123456789") ==
                          absl::string_view::npos &&
                      !(word[0] == 's' && ParseNumber(word.substr(1), &slice));
    if (!name) return ErrorAt(number, Quoted(word), "words, then the layer, then the slice");
    line.words.emplace_back(word);
  }
  return line;
}

// The number of lines in the text of a plan.
size_t LinesOf(const WeavePlan& plan) { return 1 + plan.lines.size(); }

// The error about a line of WeavePlan::lines of a plan whose first line is `header`.
absl::Status ErrorOf(size_t header, size_t index, absl::string_view found,
                     absl::string_view expected) {
  return ErrorAt(header + 1 + index, found, expected);
}

// The words of a strand, separated by spaces. The loss is computed with backward.
struct Words {
  const char* inside;  // the layers
  const char* outside;
};
constexpr Words kForwardWords = {.inside = "ln1 qkv attention proj res1 ln2 fc1 act fc2 res2",
                                 .outside = "recv embed position final_norm head max sum send"};
constexpr Words kBackwardWords = {
    .inside =
        "r.ln1 r.qkv r.attention r.proj r.res1 r.ln2 r.fc1 r.act "
        "d.ln1 d.qkv d.attention d.proj d.res1 d.ln2 d.fc1 d.act d.fc2 d.res2 "
        "w.ln1 w.qkv w.proj w.ln2 w.fc1 w.fc2",
    .outside =
        "d.recv loss d.loss d.head d.final_norm d.position d.embed d.send "
        "w.head w.final_norm w.position w.embed"};

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

absl::Status CheckWord(const WeavePlan& plan, size_t header, size_t index,
                       const std::string& word) {
  const WeaveLine& line = plan.lines[index];
  const bool in_layers = line.layer >= 0;
  const std::vector<std::string> words = WeaveWords(line.strand, in_layers);
  if (Contains(words, word)) return absl::OkStatus();
  if (Contains(WeaveWords(line.strand, !in_layers), word)) {
    return ErrorOf(header, index,
                   absl::StrCat(Quoted(word), in_layers ? " with" : " without", " a layer"),
                   in_layers ? "none" : "its layer");
  }
  return ErrorOf(header, index, Quoted(word), absl::StrCat("one of ", absl::StrJoin(words, ", ")));
}

// Refuses a plan whose largest layer or slice is not the last one: it was made for fewer.
absl::Status CheckLast(absl::string_view what, int WeaveLine::*number, int numbers,
                       const WeavePlan& plan, size_t header) {
  const auto largest = std::max_element(
      plan.lines.begin(), plan.lines.end(),
      [=](const WeaveLine& a, const WeaveLine& b) { return a.*number < b.*number; });
  if (largest == plan.lines.end() || *largest.*number < 0 || *largest.*number == numbers - 1)
    return absl::OkStatus();
  return ErrorOf(header, static_cast<size_t>(largest - plan.lines.begin()),
                 absl::StrCat(what, " ", *largest.*number, " as the last one"),
                 absl::StrCat(numbers - 1));
}

absl::Status CheckPlan(const WeavePlan& plan, size_t header, const WeaveShape& shape) {
  const int chunks = shape.chunks;
  if (plan.forward_chunk >= chunks || plan.backward_chunk != chunks - 1 - plan.forward_chunk) {
    return ErrorAt(
        header, absl::StrCat("cell ", CellName(plan.forward_chunk, plan.backward_chunk)),
        chunks == 1 ? CellName(0, 0) : absl::StrCat(CellName(0, 1), " or ", CellName(1, 0)));
  }
  const auto up_to = [](int count) { return absl::StrCat("0 to ", count - 1); };
  for (size_t i = 0; i < plan.lines.size(); ++i) {
    const WeaveLine& line = plan.lines[i];
    if (line.layer >= shape.layers)
      return ErrorOf(header, i, absl::StrCat("layer ", line.layer), up_to(shape.layers));
    if (line.slice >= shape.slices)
      return ErrorOf(header, i, absl::StrCat("slice ", line.slice), up_to(shape.slices));
    for (const std::string& word : line.words) RETURN_IF_ERROR(CheckWord(plan, header, i, word));
  }
  RETURN_IF_ERROR(CheckLast("layer", &WeaveLine::layer, shape.layers, plan, header));
  return CheckLast("slice", &WeaveLine::slice, shape.slices, plan, header);
}

}  // namespace

std::string PrintWeavePlan(const WeavePlan& plan) {
  std::string text = absl::StrCat(Header(plan), plan.pace, "\n");
  for (const WeaveLine& line : plan.lines) {
    if (line.is_barrier()) {
      absl::StrAppend(&text, "  ", kBarrier, "\n");
      continue;
    }
    absl::StrAppend(&text, line.strand == Strand::kForward ? "  f " : "  b ",
                    absl::StrJoin(line.words, " "));
    if (line.layer >= 0) absl::StrAppend(&text, " L", line.layer);
    if (line.slice >= 0) absl::StrAppend(&text, " s", line.slice);
    text += '\n';
  }
  return text;
}

absl::StatusOr<std::vector<WeavePlan>> ParseWeavePlans(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() > 1 && lines.back().empty()) lines.pop_back();
  std::vector<WeavePlan> plans;
  std::set<std::pair<int, int>> cells;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<absl::string_view> parts = PartsOf(lines[i]);
    if (i > 0 && (parts.empty() || parts[0] != kHeader)) {
      ASSIGN_OR_RETURN(plans.back().lines.emplace_back(), ParseLine(i + 1, parts));
      continue;
    }
    WeavePlan plan;
    if (!ParseHeader(parts, &plan)) {
      return ErrorAt(i + 1, Quoted(lines[i]),
                     absl::StrCat(Quoted(Header({})), " and a number of layers, at least 0"));
    }
    if (!cells.emplace(plan.forward_chunk, plan.backward_chunk).second)
      return ErrorAt(i + 1, Quoted(lines[i]), "one plan for each cell");
    plans.push_back(std::move(plan));
  }
  return plans;
}

absl::StatusOr<WeavePlan> ParseWeavePlan(absl::string_view text) {
  ASSIGN_OR_RETURN(std::vector<WeavePlan> plans, ParseWeavePlans(text));
  if (plans.size() == 1) return std::move(plans.front());
  return ErrorAt(LinesOf(plans.front()) + 1, "a second plan", "one");
}

std::vector<std::string> WeaveWords(Strand strand, bool in_layers) {
  const Words& words = strand == Strand::kForward ? kForwardWords : kBackwardWords;
  return absl::StrSplit(in_layers ? words.inside : words.outside, ' ');
}

absl::Status CheckWeavePlans(const std::vector<WeavePlan>& plans, const WeaveShape& shape) {
  size_t header = 1;
  for (const WeavePlan& plan : plans) {
    RETURN_IF_ERROR(CheckPlan(plan, header, shape));
    header += LinesOf(plan);
  }
  return absl::OkStatus();
}

}  // namespace stretto
