// SPDX-License-Identifier: Apache-2.0

// The text form has one fact a line; the first word tells which. A parser walks the words of a line
// and reports the first that is wrong. The last line counts the lines, so that a text that was cut
// off is refused.

#include "worker/engine/cost/profile.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr int kVersion = 2;
constexpr size_t kMostShown = 200;  // bytes of a line in a message

using Number = CostProfile::Number;

std::string Text(const Number& number) {
  return absl::StrFormat("%.9g spread %.3g", number.value, number.spread);
}

class Parser {
 public:
  absl::StatusOr<CostProfile> Parse(absl::string_view text) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    RETURN_IF_ERROR(ParseTitle(lines.empty() ? "" : lines[0]));
    for (line_ = 2; line_ <= lines.size(); ++line_) {
      const std::string& line = lines[line_ - 1];
      if (ended_) return Error(line, "nothing behind the line 'end'");
      RETURN_IF_ERROR(ParseLine(line));
    }
    if (!ended_) return Error("the end of the text", absl::StrCat("a line 'end ", line_, "'"));
    if (profile_.machine.empty()) return Error("no machine", "a line 'machine KIND'");
    if (profile_.build.empty()) return Error("no build", "a line 'build RELEASE'");
    if (link_ != 0 && link_ != 4) {
      return Error("a part of the link", "latency, bandwidth, cpu and burst, or none of them");
    }
    return std::move(profile_);
  }

 private:
  absl::Status Error(absl::string_view found, absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat("costs line ", line_, ": found ",
                                                   Escaped(Prefix(found, kMostShown)),
                                                   ", expected ", expected));
  }

  absl::Status ParseTitle(absl::string_view line) {
    int version = 0;
    if (!absl::ConsumePrefix(&line, kCostsTitle) || !absl::SimpleAtoi(line, &version)) {
      return Error(absl::StrCat("'", line, "'"),
                   absl::StrCat("'", kCostsTitle, " ", kVersion, "'"));
    }
    if (version == kVersion) return absl::OkStatus();
    return Error(absl::StrCat("version ", version),
                 absl::StrCat("version ", kVersion, ", which this build reads"));
  }

  absl::Status ParseLine(absl::string_view line) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const auto& [word, rest] = parts;
    if (word == "machine") return ParseName(rest, &profile_.machine);
    if (word == "build") return ParseName(rest, &profile_.build);
    if (word == "link") return ParseLink(rest);
    if (word == "pair") return ParsePair(rest);
    if (word == "operation") return ParseOperation(rest);
    if (word != "end") {
      return Error(absl::StrCat("'", word, "'"), "machine, build, link, pair, operation or end");
    }
    ended_ = true;
    size_t lines = 0;
    if (absl::SimpleAtoi(rest, &lines) && lines == line_) return absl::OkStatus();
    return Error(absl::StrCat("'end ", rest, "'"), absl::StrCat("'end ", line_, "'"));
  }

  absl::Status ParseName(absl::string_view found, std::string* name) const {
    if (found.empty() || !name->empty())
      return Error(absl::StrCat("'", found, "'"), "one name, once");
    *name = std::string(found);
    return absl::OkStatus();
  }

  // Takes a word off `rest`.
  static absl::string_view Next(absl::string_view* rest) {
    const size_t end = std::min(rest->find(' '), rest->size());
    const absl::string_view word = rest->substr(0, end);
    rest->remove_prefix(std::min(end + 1, rest->size()));
    return word;
  }

  // Written, like the other checks, so that NaN fails.
  absl::Status Take(absl::string_view* rest, bool may_be_zero, double* value) const {
    const absl::string_view word = Next(rest);
    const bool is = absl::SimpleAtod(word, value) && std::isfinite(*value);
    if (is && (*value > 0 || (may_be_zero && *value == 0))) return absl::OkStatus();
    return Error(absl::StrCat("'", word, "'"),
                 may_be_zero ? "a finite number of at least 0" : "a finite number above 0");
  }

  absl::Status TakeShare(absl::string_view* rest, double* value) const {
    RETURN_IF_ERROR(Take(rest, true, value));
    if (*value < 1) return absl::OkStatus();
    return Error(absl::StrCat("a share of ", *value), "one below 1");
  }

  absl::Status TakeWord(absl::string_view expected, absl::string_view* rest) const {
    const absl::string_view word = Next(rest);
    if (word == expected) return absl::OkStatus();
    return Error(absl::StrCat("'", word, "'"), absl::StrCat("'", expected, "'"));
  }

  absl::Status TakeSpread(absl::string_view* rest, double* spread) const {
    RETURN_IF_ERROR(TakeWord("spread", rest));
    RETURN_IF_ERROR(Take(rest, true, spread));
    if (*spread <= kMostSpread) return absl::OkStatus();
    return Error(
        absl::StrFormat("repeats that spread by %.1f %%", 100 * *spread),
        absl::StrFormat("at most %.0f %%: calibrate on an idle machine", 100 * kMostSpread));
  }

  absl::Status TakeNumber(absl::string_view* rest, Number* number) const {
    RETURN_IF_ERROR(Take(rest, false, &number->value));
    return TakeSpread(rest, &number->spread);
  }

  absl::Status ExpectEnd(absl::string_view rest) const {
    if (rest.empty()) return absl::OkStatus();
    return Error(absl::StrCat("'", rest, "'"), "the end of the line");
  }

  absl::Status ParseLink(absl::string_view rest) {
    const absl::string_view name = Next(&rest);
    static constexpr absl::string_view kNames[] = {"latency", "bandwidth", "cpu", "burst"};
    // In this order, so each is there once.
    if (link_ >= std::size(kNames) || name != kNames[link_])
      return Error(absl::StrCat("'link ", name, "'"), "link latency, bandwidth, cpu and burst");
    ++link_;
    if (name == "latency") {
      RETURN_IF_ERROR(TakeNumber(&rest, &profile_.latency_seconds));
    } else if (name == "bandwidth") {
      RETURN_IF_ERROR(TakeNumber(&rest, &profile_.bytes_per_second));
    } else if (name == "cpu") {
      RETURN_IF_ERROR(TakeShare(&rest, &profile_.cpu_share));
    } else {
      RETURN_IF_ERROR(Take(&rest, true, &profile_.burst_bytes));
    }
    return ExpectEnd(rest);
  }

  absl::Status ParsePair(absl::string_view rest) {
    const absl::string_view compute = Next(&rest), kind = Next(&rest);
    const auto* of = std::find_if(std::begin(kComputeClasses), std::end(kComputeClasses),
                                  [&](ComputeClass c) { return NameOf(c) == compute; });
    const auto* with = std::find_if(std::begin(kCollectives), std::end(kCollectives),
                                    [&](const CollectiveInfo& info) { return info.name == kind; });
    if (of == std::end(kComputeClasses) || with == std::end(kCollectives)) {
      return Error(absl::StrCat("'", compute, " ", kind, "'"),
                   "a class of computations and a kind of collective");
    }
    const auto [at, added] = profile_.pairs.try_emplace({*of, with->kind});
    if (!added) return Error(absl::StrCat("'", compute, " ", kind, "'"), "each pair once");
    RETURN_IF_ERROR(TakeShare(&rest, &at->second.contention.compute));
    RETURN_IF_ERROR(TakeShare(&rest, &at->second.contention.communication));
    RETURN_IF_ERROR(TakeWord("turn", &rest));
    RETURN_IF_ERROR(Take(&rest, true, &at->second.contention.turn_seconds));
    RETURN_IF_ERROR(TakeSpread(&rest, &at->second.spread));
    return ExpectEnd(rest);
  }

  absl::Status ParseOperation(absl::string_view rest) {
    Number number;
    RETURN_IF_ERROR(TakeNumber(&rest, &number));
    if (rest.empty()) return Error("no operation", "its kind and shapes");
    if (profile_.operations.emplace(std::string(rest), number).second) return absl::OkStatus();
    return Error(absl::StrCat("'", rest, "'"), "each operation once");
  }

  CostProfile profile_;
  size_t line_ = 1, link_ = 0;
  bool ended_ = false;
};

}  // namespace

std::string Print(const CostProfile& profile) {
  std::vector<std::string> lines = {absl::StrCat(kCostsTitle, " ", kVersion),
                                    absl::StrCat("machine ", profile.machine),
                                    absl::StrCat("build ", profile.build)};
  if (profile.has_link()) {
    lines.push_back(absl::StrCat("link latency ", Text(profile.latency_seconds)));
    lines.push_back(absl::StrCat("link bandwidth ", Text(profile.bytes_per_second)));
    lines.push_back(absl::StrFormat("link cpu %.6g", profile.cpu_share));
    lines.push_back(absl::StrFormat("link burst %.9g", profile.burst_bytes));
  }
  for (const auto& [pair, measured] : profile.pairs) {
    const Contention& of = measured.contention;
    lines.push_back(absl::StrFormat("pair %s %s %.6g %.6g turn %.6g spread %.3g",
                                    NameOf(pair.first), InfoOf(pair.second).name, of.compute,
                                    of.communication, of.turn_seconds, measured.spread));
  }
  for (const auto& [key, number] : profile.operations)
    lines.push_back(absl::StrCat("operation ", Text(number), " ", key));
  lines.push_back(absl::StrCat("end ", lines.size() + 1));
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  return text;
}

absl::StatusOr<CostProfile> ParseCostProfile(absl::string_view text) {
  return Parser().Parse(text);
}

CostModel ModelOf(const CostProfile& profile) {
  CostModel model;
  if (profile.has_link()) {
    model.interconnect = {.bytes_per_second = profile.bytes_per_second.value,
                          .latency_seconds = profile.latency_seconds.value,
                          .burst_bytes = profile.burst_bytes};
  }
  model.contention.compute = profile.cpu_share;
  for (const auto& [pair, measured] : profile.pairs) model.pairs[pair] = measured.contention;
  for (const auto& [key, number] : profile.operations) model.table.Set(key, number.value);
  return model;
}

absl::Status ExpectMachine(const CostProfile& profile, absl::string_view machine) {
  if (profile.machine == machine) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("costs: found those of machine '", profile.machine,
                                                 "', expected this one, '", machine, "'"));
}

absl::Status ExpectOperations(const CostProfile& profile, const Program& program) {
  for (const Op& op : program.ops) {
    if (IsCollective(op.kind)) continue;
    const std::string key = OperationKey(program, op);
    if (profile.operations.contains(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("costs: found no seconds of '", key,
                     "', expected those of every computation: calibrate with this work"));
  }
  return absl::OkStatus();
}

}  // namespace stretto
