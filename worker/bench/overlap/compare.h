// SPDX-License-Identifier: Apache-2.0
#pragma once
// The benchmark itself: which schedules compute the right thing, how each is best sliced, and what
// they take, interleaved with the times they are judged by.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/overlap/figures.h"
#include "worker/bench/overlap/rig.h"
#include "worker/bench/overlap/simulate.h"

namespace stretto::bench {

// A schedule with one choice of slices and so on.
struct Candidate {
  EngineSpec spec;
  Parity parity;
};

struct ScheduleResult {
  Candidate candidate;
  Figures figures;
  double t_optimizer = 0;
  std::optional<double> t_occupy;  // over an emulated link
  Slowdown slowdown;
  Figures ceiling;              // simulated, no contention
  Figures simulated;            // simulated, with the measured contention
  std::vector<double> samples;  // forward and backward, one of each round
};

struct Comparison {
  std::vector<Candidate> candidates;  // all that were searched
  std::vector<ScheduleResult> schedules;
  Link link;
  int64_t wire_bytes = 0;              // that a rank sends in one t_comm
  std::optional<double> wire_seconds;  // that they take at least; none where the link has no rate
  // Schedules that failed parity or fit no choice, and times that cannot be.
  std::vector<std::string> errors;
};

// Progress for people, one line at a time.
using Say = std::function<void(const std::string&)>;

// Every rank calls it. Errors: those of Rig; InvalidArgument for an unknown schedule. What is wrong
// with a schedule is an entry of `errors` instead.
absl::StatusOr<Comparison> Compare(const OverlapOptions& options, Rig& rig, const Say& say);

// "domino_row, slices 2, splits 1"
std::string Describe(const ScheduleSpec& schedule);

}  // namespace stretto::bench
