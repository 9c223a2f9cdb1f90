// SPDX-License-Identifier: Apache-2.0

// A computation runs on copies of its operands, so that they are in a cache about as often as in a
// step. Every round measures all computations once, so that the repeats of each spread over minutes
// and a machine whose speed changes within them makes no shape cheaper than another. All ranks that
// have a computation run it at once, and the time of a repeat is that of the slowest, because in a
// step the others wait for it at the next collective.

#include "worker/bench/calibrate/computation_costs.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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

// Returns the seconds of one call on this rank.
absl::StatusOr<double> SecondsOf(const KernelCase& timed, Backend& backend) {
  const int copies = CountFor(timed, kWorkingSet);
  ASSIGN_OR_RETURN(const auto executor,
                   MakeFilled(timed, CopiesOf(timed, copies, copies), {}, backend));
  RETURN_IF_ERROR(executor->Run());  // touches the memory
  double seconds = 0;
  int calls = 0;
  while (seconds < kLeastSeconds) {
    RETURN_IF_ERROR(executor->Run());
    seconds += SpanSeconds(executor->intervals());
    calls += copies;
  }
  return seconds / calls;
}

// The computations of all ranks, in the same order on each.
struct Computations {
  std::vector<std::string> keys;
  std::vector<const KernelCase*> timed;  // null if this rank lacks it
  std::vector<Repeated> repeats;
};

constexpr absl::string_view kOfOptimizer = "optimizer ";

bool IsOfOptimizer(const KernelCase& timed) { return timed.ops[0].tag.phase == Phase::kOptimizer; }

absl::StatusOr<Computations> OfAllRanks(const std::map<std::string, KernelCase>& mine,
                                        MeasuredJob& job) {
  std::vector<std::string> names;
  for (const auto& [key, timed] : mine)
    names.push_back(absl::StrCat(IsOfOptimizer(timed) ? kOfOptimizer : "", key));
  ASSIGN_OR_RETURN(const auto all,
                   trainer::ExchangeText(job.control(), absl::StrJoin(names, "\n")));
  std::set<absl::string_view> merged;
  for (const std::string& of_rank : all) {
    for (absl::string_view name : absl::StrSplit(of_rank, '\n', absl::SkipEmpty()))
      merged.insert(name);
  }
  Computations found;
  for (absl::string_view name : merged) {
    // One of the optimizer waits for memory all the time, so it may never settle, and no predicted
    // time contains it.
    const bool any = absl::ConsumePrefix(&name, kOfOptimizer);
    found.keys.emplace_back(name);
    const auto timed = mine.find(found.keys.back());
    found.timed.push_back(timed == mine.end() ? nullptr : &timed->second);
    found.repeats.emplace_back(any ? Values::kAny : Values::kTimes);
  }
  return found;
}

// How much of the computation in a step on this rank has settled.
SettledPart PartOf(const Computations& computations) {
  SettledPart part("computation");
  for (size_t i = 0; i < computations.keys.size(); ++i) {
    const KernelCase* timed = computations.timed[i];
    if (timed == nullptr || IsOfOptimizer(*timed)) continue;
    const Repeats& found = computations.repeats[i].found();
    part.Add(computations.keys[i], found, found.medians[0] * timed->count);
  }
  return part;
}

}  // namespace

absl::StatusOr<std::map<std::string, CostProfile::Number>> MeasureComputations(
    const std::map<std::string, KernelCase>& computations, MeasuredJob& job) {
  ASSIGN_OR_RETURN(Computations all, OfAllRanks(computations, job));
  const auto measure = [&](size_t i) -> absl::StatusOr<std::vector<double>> {
    absl::StatusOr<double> mine = 0.0;
    if (all.timed[i] != nullptr) mine = SecondsOf(*all.timed[i], job.backend());
    ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(job.control(), !mine.ok()));
    RETURN_IF_ERROR(mine.status());
    if (failed) return absl::InternalError(absl::StrCat(all.keys[i], ": failed on another rank"));
    ASSIGN_OR_RETURN(const double slowest, job.Slowest(*mine));
    return std::vector<double>{slowest};
  };
  // What has not settled when most of a step has is not worth minutes of further rounds.
  const auto enough = [&]() -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const bool missing, trainer::AnyRank(job.control(), PartOf(all).too_small()));
    return !missing;
  };
  RETURN_IF_ERROR(RepeatInRounds(absl::MakeSpan(all.repeats), measure, enough));
  RETURN_IF_ERROR(PartOf(all).ExpectMost(job.control()));
  std::map<std::string, CostProfile::Number> costs;
  for (size_t i = 0; i < all.keys.size(); ++i) {
    if (all.timed[i] == nullptr) continue;
    const Repeats& found = all.repeats[i].found();
    costs[all.keys[i]] = {found.medians[0], found.spread_of_cost()};
  }
  return costs;
}

}  // namespace stretto::bench
