// SPDX-License-Identifier: Apache-2.0

// A computation runs on copies of its operands, so that they are in a cache about as often as in a
// step. Ranks meet after each computation, also those that lack it: all that have it compute at
// once, and none waits for another longer than one measurement takes.

#include "worker/bench/calibrate/computation_costs.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/calibrate/settled_part.h"
#include "worker/bench/kernels/measure.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// How long one repeat lasts at least. Operations that wait for memory vary within a few
// milliseconds.
constexpr double kLeastSeconds = 0.04;

class ComputationCosts {
 public:
  explicit ComputationCosts(MeasuredJob& job) : job_(job) {}

  absl::Status Measure(const KernelCase& timed) {
    const int copies = CountFor(timed, kWorkingSet);
    ASSIGN_OR_RETURN(const auto executor,
                     MakeFilled(timed, CopiesOf(timed, copies, copies), {}, job_.backend()));
    RETURN_IF_ERROR(executor->Run());  // touches the memory
    const auto measure = [&]() -> absl::StatusOr<std::vector<double>> {
      double seconds = 0, calls = 0;
      while (seconds < kLeastSeconds) {
        RETURN_IF_ERROR(executor->Run());
        seconds += SpanSeconds(executor->intervals());
        calls += copies;
      }
      return std::vector<double>{seconds / calls};
    };
    CostProfile::Number& cost = costs_[timed.operation];
    // It waits for memory all the time, so it may never settle, and no predicted time contains it.
    if (timed.ops[0].tag.phase == Phase::kOptimizer) {
      ASSIGN_OR_RETURN(cost.value, MedianOfFew(measure));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Repeats found, Repeat(Values::kTimes, measure));
    cost = {found.medians[0], found.settled ? found.spread : 0};
    settled_.Add(timed.operation, found, cost.value * timed.count);
    return absl::OkStatus();
  }

  absl::Status ExpectMostSettled() const { return settled_.ExpectMost(job_.control()); }

  std::map<std::string, CostProfile::Number> costs() && { return std::move(costs_); }

 private:
  MeasuredJob& job_;
  std::map<std::string, CostProfile::Number> costs_;
  SettledPart settled_{"computation"};
};

}  // namespace

absl::StatusOr<std::map<std::string, CostProfile::Number>> MeasureComputations(
    const std::map<std::string, KernelCase>& computations, MeasuredJob& job) {
  std::vector<std::string> mine;
  for (const auto& [key, timed] : computations) mine.push_back(key);
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeText(job.control(), absl::StrJoin(mine, "\n")));
  std::set<std::string> keys;
  for (const std::string& of_rank : all) {
    for (absl::string_view key : absl::StrSplit(of_rank, '\n', absl::SkipEmpty()))
      keys.emplace(key);
  }
  ComputationCosts costs(job);
  for (const std::string& key : keys) {
    const auto timed = computations.find(key);
    const absl::Status measured =
        timed == computations.end() ? absl::OkStatus() : costs.Measure(timed->second);
    ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(job.control(), !measured.ok()));
    RETURN_IF_ERROR(measured);
    if (failed) return absl::InternalError(absl::StrCat(key, ": failed on another rank"));
  }
  RETURN_IF_ERROR(costs.ExpectMostSettled());
  return std::move(costs).costs();
}

}  // namespace stretto::bench
