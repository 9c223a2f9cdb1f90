// SPDX-License-Identifier: Apache-2.0
#pragma once
// The benchmark itself: checks that each schedule computes the right values, finds its best
// slicing, and times the schedules interleaved with the programs that define the bounds.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/rounds.h"
#include "worker/bench/overlap/choices.h"
#include "worker/bench/overlap/figures.h"
#include "worker/bench/overlap/rig.h"
#include "worker/bench/overlap/simulate.h"

namespace stretto::bench {

// A schedule with one choice of its parameters.
struct Candidate {
  Choice choice;
  Parity parity;
};

struct ScheduleResult {
  Candidate candidate;
  Figures figures;
  int64_t activations = 0, serial_activations = 0;  // bytes of it, and of megatron_sync unsliced
  double t_optimizer = 0;
  std::optional<double> t_occupy;  // over an emulated link
  Slowdown slowdown;
  Figures ceiling;  // simulated, no contention
  // From the costs of a calibration, and from these with computations measured in the rounds.
  std::optional<Prediction> predicted, predicted_interleaved;
  std::vector<double> samples;  // forward and backward, one of each round
};

struct Comparison {
  bool finished = false;  // else more will be timed, and `rounds` is empty
  Rounds rounds;
  std::vector<Candidate> candidates;  // every candidate of the search
  std::vector<ScheduleResult> schedules;
  Link link;
  int64_t wire_bytes = 0;              // sent by a rank in one t_comm
  int64_t least_collective_bytes = 0;  // the least that it sends in a collective of a layer there
  std::optional<double> wire_seconds;  // their minimum time; none if the link has no given rate
  std::vector<std::string> refused;    // schedules that accept no choice, unless asked for by name
  // Schedules that failed parity, or accepted no choice though asked for, and impossible times.
  std::vector<std::string> errors;
};

// Takes what is known so far; may be null.
using Keep = std::function<absl::Status(const Comparison&)>;

// Every rank calls it. Calls `keep` whenever the programs of a schedule have been timed once more,
// with all schedules that have a time by then, so that they are not lost if the rest is. Errors:
// those of Rig and of `keep`; InvalidArgument for an unknown schedule. A fault of a schedule is an
// entry of `errors` instead.
absl::StatusOr<Comparison> Compare(const OverlapOptions& options, Rig& rig, const Say& say,
                                   const Keep& keep);

}  // namespace stretto::bench
