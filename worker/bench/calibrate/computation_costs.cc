// SPDX-License-Identifier: Apache-2.0

// A computation runs on copies of its operands, so that they are in a cache about as often as in a
// step. Every round measures all computations once, so that the repeats of each spread over minutes
// and a machine whose speed changes within them makes no shape cheaper than another. All ranks that
// have a computation run it at once, and the time of a repeat is that of the slowest, because in a
// step the others wait for it at the next collective.

#include "worker/bench/calibrate/computation_costs.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/round_costs.h"
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
  std::vector<double> calls;             // in a step of the rank that has most of them
  std::vector<const KernelCase*> timed;  // null if this rank lacks it
};

// Returns how many times a step calls it. Those of the optimizer do not count: they wait for memory
// all the time, and no predicted time contains them.
int CallsOf(const KernelCase& timed) {
  return timed.ops[0].tag.phase == Phase::kOptimizer ? 0 : timed.count;
}

absl::StatusOr<Computations> OfAllRanks(const std::map<std::string, KernelCase>& mine,
                                        MeasuredJob& job) {
  std::vector<std::string> lines;
  for (const auto& [key, timed] : mine) lines.push_back(absl::StrCat(CallsOf(timed), " ", key));
  ASSIGN_OR_RETURN(const auto all,
                   trainer::ExchangeText(job.control(), absl::StrJoin(lines, "\n")));
  std::map<std::string, int> merged;
  for (const std::string& of_rank : all) {
    for (absl::string_view line : absl::StrSplit(of_rank, '\n', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      int& calls = merged[std::string(words.second)];
      calls = std::max(calls, std::stoi(std::string(words.first)));
    }
  }
  Computations found;
  for (const auto& [key, calls] : merged) {
    found.keys.push_back(key);
    found.calls.push_back(calls);
    const auto timed = mine.find(key);
    found.timed.push_back(timed == mine.end() ? nullptr : &timed->second);
  }
  return found;
}

}  // namespace

absl::StatusOr<std::map<std::string, CostProfile::Number>> MeasureComputations(
    const std::map<std::string, KernelCase>& computations, MeasuredJob& job) {
  ASSIGN_OR_RETURN(const Computations all, OfAllRanks(computations, job));
  const auto measure = [&](size_t i) -> absl::StatusOr<double> {
    absl::StatusOr<double> mine = 0.0;
    if (all.timed[i] != nullptr) mine = SecondsOf(*all.timed[i], job.backend());
    ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(job.control(), !mine.ok()));
    RETURN_IF_ERROR(mine.status());
    if (failed) return absl::InternalError(absl::StrCat(all.keys[i], ": failed on another rank"));
    return job.Slowest(*mine);
  };
  RoundCosts rounds(all.calls);
  while (!rounds.done()) {
    std::vector<double> seconds;
    for (size_t i = 0; i < all.keys.size(); ++i) {
      ASSIGN_OR_RETURN(seconds.emplace_back(), measure(i));
    }
    rounds.Add(std::move(seconds));
  }
  RETURN_IF_ERROR(rounds.ExpectSettled());
  std::map<std::string, CostProfile::Number> costs;
  for (size_t i = 0; i < all.keys.size(); ++i) {
    if (all.timed[i] != nullptr) costs[all.keys[i]] = rounds.CostOf(i);
  }
  return costs;
}

}  // namespace stretto::bench
