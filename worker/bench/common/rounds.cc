// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/rounds.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"

namespace stretto::bench {
namespace {

// How often a program is timed at most, as a multiple of the rounds that are asked for.
constexpr int kMostRounds = 4;

}  // namespace

absl::StatusOr<Rounds> TimeInRounds(absl::Span<const TimedProgram> programs, int rounds,
                                    int samples, const Say& say) {
  const auto lacks = [&](const TimedProgram& program) {
    const std::vector<double> seconds = program.seconds();
    return seconds.empty() || std::ssize(QuietOf(seconds)) < int64_t{rounds} * samples;
  };
  for (int round = 1; round <= kMostRounds * rounds; ++round) {
    int timed = 0;
    for (const TimedProgram& program : programs) {
      if (round > rounds && !lacks(program)) continue;
      RETURN_IF_ERROR(program.time());
      ++timed;
    }
    if (timed == 0) break;
    say(absl::StrCat("round ", round, " of ", std::max(round, rounds), ": ", timed, " programs"));
  }
  Rounds result;
  std::vector<ProgramRounds> kept;
  for (const TimedProgram& program : programs) {
    if (!lacks(program)) {
      const std::vector<double> all = program.seconds();
      const std::vector<size_t> quiet = QuietOf(all);
      program.keep(quiet);
      result.left_out += std::ssize(all) - std::ssize(quiet);
    }
    kept.push_back({program.name, program.seconds()});
  }
  result.disturbed = DisturbancesOf(std::move(kept));
  return result;
}

void AddTo(nlohmann::ordered_json* report, const Rounds& rounds) {
  (*report)["runs_left_out"] = rounds.left_out;
  AddTo(report, rounds.disturbed);
}

std::string ToText(const Rounds& rounds) {
  std::string text;
  if (rounds.left_out > 0) {
    absl::StrAppendFormat(&text, "%d runs that other work disturbed were repeated\n",
                          rounds.left_out);
  }
  return absl::StrCat(text, ToText(rounds.disturbed));
}

}  // namespace stretto::bench
