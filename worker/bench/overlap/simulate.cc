// SPDX-License-Identifier: Apache-2.0

// Makes the simulator's costs of what was measured: times of operations from a step without
// collectives, the link from a step of collectives alone, contention from a step with both.

#include "worker/bench/overlap/simulate.h"

#include <algorithm>
#include <map>
#include <string>

#include "proto/base/status_macros.h"
#include "worker/bench/overlap/phases.h"
#include "worker/engine/exec/backend_sim/timeline.h"

namespace stretto::bench {
namespace {

// Minimum share of an operation under the other side to count it as running under it.
constexpr double kUnder = 0.9;

double Seconds(const Interval& interval) {
  return static_cast<double>(interval.end - interval.begin) * 1e-9;
}

struct Ratio {
  double measured = 0, alone = 0;
  double value() const { return alone > 0 ? measured / alone : 1; }
};

absl::StatusOr<StepTimes> SimulatedTimes(const Program& program, const CostModel& cost) {
  ASSIGN_OR_RETURN(const std::vector<Interval> intervals, Simulate(program, cost));
  return TimesOf(program, intervals, 0);
}

PhaseMedians PhaseOf(const PhaseTimes& overlap, const PhaseTimes& serial,
                     const PhaseTimes& communication) {
  PhaseMedians medians;
  medians.t_comm = communication.seconds;
  medians.t_serial_sliced = serial.seconds;
  medians.t_overlap = overlap.seconds;
  medians.t_comp_sliced = serial.seconds - serial.communication;
  medians.hidden_interval = overlap.communication > 0 ? 1 - overlap.exposed_share() : 0;
  return medians;
}

}  // namespace

const Run& MedianRun(const Measured& measured) {
  std::vector<const Run*> runs;
  for (const Run& run : measured.runs) runs.push_back(&run);
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end(), [](const Run* a, const Run* b) {
    return a->slowest.step.seconds < b->slowest.step.seconds;
  });
  return **middle;
}

std::map<std::string, double> MeanSeconds(const Program& program,
                                          absl::Span<const Interval> intervals) {
  struct Sum {
    double seconds = 0, operations = 0;
  };
  std::map<std::string, Sum> sums;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (IsCollective(op.kind)) continue;
    Sum& sum = sums[OperationKey(program, op)];
    sum.seconds += Seconds(intervals[id.position()]);
    ++sum.operations;
  }
  std::map<std::string, double> means;
  for (const auto& [key, sum] : sums) means[key] = sum.seconds / sum.operations;
  return means;
}

CostTable TableOf(const Measured& compute) {
  CostTable table;
  for (const auto& [key, seconds] : MeanSeconds(compute.program, MedianRun(compute).intervals)) {
    table.Set(key, seconds);
  }
  return table;
}

Interconnect LinkOf(const Measured& communication, double latency_seconds) {
  const CostModel latency{.interconnect = {.latency_seconds = latency_seconds}};
  const CostModel bytes{.interconnect = {.bytes_per_second = 1}};
  double seconds = MedianRun(communication).slowest.step.seconds, sent = 0;
  for (const Op& op : communication.program.ops) {
    if (!IsCollective(op.kind) || op.tag.phase == Phase::kOptimizer) continue;
    seconds -= latency.Alone(communication.program, op);
    sent += bytes.Alone(communication.program, op);
  }
  if (sent == 0 || seconds <= 0) return latency.interconnect;
  return {.bytes_per_second = sent / seconds, .latency_seconds = latency_seconds};
}

Slowdown SlowdownOf(const Measured& overlap, const CostModel& alone) {
  Ratio compute, communication;
  for (const Run& run : overlap.runs) {
    const std::vector<double> shares = SharesUnderOtherSide(overlap.program, run.intervals);
    for (OpId id : overlap.program.ops.ids()) {
      if (shares[id.position()] < kUnder) continue;
      const Op& op = overlap.program.ops[id];
      Ratio& ratio = IsCollective(op.kind) ? communication : compute;
      ratio.measured += Seconds(run.intervals[id.position()]);
      ratio.alone += alone.Alone(overlap.program, op);
    }
  }
  return {.compute = compute.value(), .communication = communication.value()};
}

absl::StatusOr<Figures> SimulateFigures(const Simulands& programs, const CostModel& cost) {
  ASSIGN_OR_RETURN(const StepTimes overlap, SimulatedTimes(programs.overlap, cost));
  ASSIGN_OR_RETURN(const StepTimes serial, SimulatedTimes(programs.serial_sliced, cost));
  ASSIGN_OR_RETURN(const StepTimes communication, SimulatedTimes(programs.communication, cost));
  return Figures{.forward = PhaseOf(overlap.forward, serial.forward, communication.forward),
                 .backward = PhaseOf(overlap.backward, serial.backward, communication.backward),
                 .step = PhaseOf(overlap.step, serial.step, communication.step),
                 .paired = PhaseOf(overlap.paired, serial.paired, communication.paired)};
}

absl::StatusOr<Prediction> Predict(const Simulands& programs, const CostProfile& costs) {
  ASSIGN_OR_RETURN(const Figures figures, SimulateFigures(programs, ModelOf(costs)));
  return Prediction{.t_overlap = figures.step.t_overlap,
                    .t_comp_sliced = figures.step.t_comp_sliced};
}

}  // namespace stretto::bench
