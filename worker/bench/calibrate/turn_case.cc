// SPDX-License-Identifier: Apache-2.0

// The kernel gives the core to a thread that wakes up at one of its ticks, and calls in a row would
// each end at a tick and so begin at the same distance from the next one. How long such a row takes
// says little about a step, in which collectives begin whenever a computation has ended: on one
// machine and link, two calibrations by such rows found waits of 0.6 and 2.2 ms. Here calls begin
// as in a step, at times that have nothing to do with ticks, and the lane is idle before.

#include "worker/bench/calibrate/turn_case.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "proto/base/status_macros.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/kernels/measure.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

constexpr int kCalls = 16;  // of a repeat
// The next call is released when this one has had time to wait for two ticks of 4 ms, and to move
// for kRoom times as long as alone.
constexpr double kLongestTurn = 8e-3, kRoom = 1.5;
// Distances of releases, in computations, take this many values in turn.
constexpr int kDistances = 3;

}  // namespace

absl::StatusOr<std::shared_ptr<const TurnCase>> TurnCase::Make(
    const KernelCase& timed, double operation_seconds, const CollectiveCase& collective,
    double call_seconds, MeasuredJob& job, CollectiveCalls& runner) {
  std::shared_ptr<TurnCase> turn(new TurnCase(job, runner));
  turn->takes_part_ = collective.ranks > 0;
  const int least =
      static_cast<int>(std::ceil((kRoom * call_seconds + kLongestTurn) / operation_seconds));
  for (int call = 0; call < kCalls; ++call) {
    turn->releases_.push_back(turn->computations_);
    turn->computations_ += least + call % kDistances;
  }
  const int sets = std::min(turn->computations_, CountFor(timed, kWorkingSet));
  ASSIGN_OR_RETURN(turn->together_,
                   runner.MakeBeside(timed, CopiesOf(timed, turn->computations_, sets), collective,
                                     kCalls, turn->releases_));
  ASSIGN_OR_RETURN(turn->moving_, runner.Make(collective, kCalls));
  return turn;
}

absl::StatusOr<std::vector<double>> TurnCase::Measure() const {
  ASSIGN_OR_RETURN(const double alone, runner_.RunDrained(moving_.get()));
  RETURN_IF_ERROR(together_->Run());
  std::vector<double> mine(kCalls, std::numeric_limits<double>::infinity());
  if (takes_part_) {
    const absl::Span<const Interval> intervals = together_->intervals();
    for (size_t call = 0; call < mine.size(); ++call) {
      const Interval& release = intervals[static_cast<size_t>(releases_[call])];
      const Interval& moved = intervals[static_cast<size_t>(computations_) + call];
      mine[call] = static_cast<double>(moved.end - release.end) * 1e-9;
    }
  }
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(job_.control(), mine));
  double sum = 0;
  for (size_t call = 0; call < mine.size(); ++call) {
    double from_last = mine[call];  // the last rank to release it waits least
    for (const std::vector<double>& rank : all) from_last = std::min(from_last, rank[call]);
    sum += from_last;
  }
  return std::vector<double>{sum / alone};
}

}  // namespace stretto::bench
