// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides whether something else on the machine disturbed a run: the rounds of a program, which are
// alike, took times that differ too much. Ratios of such times are not results, so every benchmark
// reports the disturbance in their place. The limit is kMostSpread, that of every measurement
// (proto/base/spread.h).

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/base/spread.h"

namespace stretto::bench {

// Returns the positions of the times that exceed the shortest by at most kMostSpread. Other work on
// a machine only ever makes a program take longer, so the others are those that it disturbed.
std::vector<size_t> QuietOf(absl::Span<const double> seconds);

// The times of one program in all rounds of a run.
struct ProgramRounds {
  std::string program;
  std::vector<double> seconds;
};

struct Disturbance {
  std::string program;
  double spread = 0;
};

// Returns the programs of which some rounds are not quiet, the worst one first. The only round of a
// program is quiet.
std::vector<Disturbance> DisturbancesOf(std::vector<ProgramRounds> programs);

// Returns a line for each, and one that tells what follows from them; empty without any.
std::string ToText(absl::Span<const Disturbance> disturbances);

// Adds "most_spread" and "disturbed", a list of {program, spread}, to a report.
void AddTo(nlohmann::ordered_json* report, absl::Span<const Disturbance> disturbances);

// Returns a ratio of times for a table, as "0.953" or "95.3 %", or "-" in a disturbed run.
std::string RatioText(double ratio, absl::Span<const Disturbance> disturbances);
std::string PercentText(double ratio, absl::Span<const Disturbance> disturbances);
// Returns it for a report, or null in a disturbed run.
nlohmann::ordered_json RatioJson(double ratio, absl::Span<const Disturbance> disturbances);

}  // namespace stretto::bench
