// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/programs.h"

#include <utility>
#include <vector>

#include "worker/engine/cost/median.h"

namespace stretto::bench {
namespace {

template <class Get>
double MedianOfRuns(const Measured& measured, Get get) {
  std::vector<double> values;
  for (const Run& run : measured.runs) values.push_back(get(run.slowest));
  return MedianOf(std::move(values));
}

}  // namespace

double MedianOfSteps(const Measured& measured) {
  return MedianOfRuns(measured, [](const StepSample& sample) { return sample.step.seconds; });
}

double MedianOfOptimizers(const Measured& measured) {
  return MedianOfRuns(measured, [](const StepSample& sample) { return sample.optimizer; });
}

PhaseMedians MediansOf(const Programs& programs, PhaseSample StepSample::*phase) {
  const auto median = [&](const Measured* measured, double PhaseSample::*field) {
    return MedianOfRuns(*measured, [&](const StepSample& s) { return s.*phase.*field; });
  };
  constexpr auto seconds = &PhaseSample::seconds;
  return {.t_comp = median(programs.comp, seconds),
          .t_comm = median(programs.comm, seconds),
          .comm_cpu = median(programs.comm, &PhaseSample::cpu),
          .t_serial = median(programs.serial, seconds),
          .t_serial_sliced = median(programs.oracle, seconds),
          .t_overlap = median(programs.overlap, seconds),
          .t_comp_sliced = median(programs.comp_sliced, seconds),
          .hidden_interval = 1 - median(programs.overlap, &PhaseSample::exposed_share)};
}

}  // namespace stretto::bench
