// SPDX-License-Identifier: Apache-2.0

// The kernel gives the core to a thread that wakes up at one of its ticks, and calls in a row would
// each end at a tick and so begin at the same distance from the next one. How long such a row takes
// says little about a step, in which collectives begin whenever a computation has ended: on one
// machine and link, two calibrations by such rows found waits of 0.6 and 2.2 ms. Here calls begin
// as in a step, at times that have nothing to do with ticks, and the lane is idle before.
//
// Ranks meet before each call. In a row of calls that nothing waits for, they would drift apart by
// more than a call takes. Then the data of the first rank has arrived before the last one begins,
// whose call takes no time (docs/design/0094-receives-posted-ahead.md). A call before the
// computations announces the measured one, as in a step.

#include "worker/bench/calibrate/turn_case.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "proto/base/status_macros.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/kernels/measure.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

constexpr int kCalls = 16;  // of a repeat
// What computes before a call. It is over on all ranks within a few percent of that time.
constexpr double kLead = 5e-3;
// Something computes until the call has had time to wait for two ticks of 4 ms, and to move for
// kRoom times as long as alone.
constexpr double kLongestTurn = 8e-3, kRoom = 1.5;

int CountOf(double seconds, double operation_seconds) {
  return std::max(1, static_cast<int>(std::ceil(seconds / operation_seconds)));
}

}  // namespace

bool ReleasesBetter(double seconds, double other) {
  if (seconds >= kLead && other >= kLead) return seconds < other;
  return seconds > other;
}

double FromLastRelease(absl::Span<const ReleasedCall> ranks) {
  std::map<int, ReleasedCall> last;  // by group
  for (const ReleasedCall& rank : ranks) {
    if (rank.group < 0) continue;
    ReleasedCall& of_group = last[rank.group];
    of_group.released = std::max(of_group.released, rank.released);
    of_group.ended = std::max(of_group.ended, rank.ended);
  }
  double sum = 0;
  for (const auto& [group, call] : last) sum += call.ended - call.released;
  return last.empty() ? 0 : sum / static_cast<double>(last.size());
}

absl::StatusOr<std::shared_ptr<const TurnCase>> TurnCase::Make(
    const KernelCase& timed, double operation_seconds, const CollectiveCase& collective,
    double call_seconds, MeasuredJob& job, CollectiveCalls& runner) {
  std::shared_ptr<TurnCase> turn(new TurnCase(job, runner));
  if (collective.ranks > 0)
    turn->group_ = job.groups()[collective.op.group].ranks[GroupRank(0)].value();
  turn->release_ = CountOf(kLead, operation_seconds) - 1;
  const int computations =
      turn->release_ + 1 + CountOf(kRoom * call_seconds + kLongestTurn, operation_seconds);
  const int sets = std::min(computations, CountFor(timed, kWorkingSet));
  ASSIGN_OR_RETURN(turn->together_, runner.MakeReleased(timed, CopiesOf(timed, computations, sets),
                                                        collective, turn->release_));
  ASSIGN_OR_RETURN(turn->moving_, runner.Make(collective, kCalls));
  return turn;
}

absl::StatusOr<std::vector<double>> TurnCase::Measure() const {
  ASSIGN_OR_RETURN(const double alone, runner_.RunDrained(moving_.get()));
  double sum = 0;
  for (int call = 0; call < kCalls; ++call) {
    RETURN_IF_ERROR(together_->Run());
    double released = 0, ended = 0;
    if (group_ >= 0) {
      const absl::Span<const Interval> intervals = together_->intervals();
      const int64_t met = intervals[0].begin;
      released = static_cast<double>(intervals[static_cast<size_t>(1 + release_)].end - met) * 1e-9;
      ended = static_cast<double>(intervals.back().end - met) * 1e-9;
    }
    ASSIGN_OR_RETURN(
        const auto all,
        trainer::ExchangeNumbers(job_.control(), {static_cast<double>(group_), released, ended}));
    std::vector<ReleasedCall> ranks;
    for (const std::vector<double>& rank : all)
      ranks.push_back({static_cast<int>(rank[0]), rank[1], rank[2]});
    sum += FromLastRelease(ranks);
  }
  return std::vector<double>{sum / alone};
}

}  // namespace stretto::bench
