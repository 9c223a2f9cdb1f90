// SPDX-License-Identifier: Apache-2.0

// A computation runs on copies of its operands, so that they are in a cache about as often as in a
// step. Every round measures all computations once, so that the repeats of each spread over minutes
// and a machine whose speed changes within them makes no shape cheaper than another. All ranks that
// have a computation run it at once, and the time of a repeat is that of the slowest, because in a
// step the others wait for it at the next collective.

#include "worker/bench/computations/computations.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
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

// Returns how many times a step calls it. Those of the optimizer do not count: they wait for memory
// all the time, and no predicted time contains them.
int CallsOf(const KernelCase& timed) {
  return timed.ops[0].tag.phase == Phase::kOptimizer ? 0 : timed.count;
}

}  // namespace

void AddComputations(const Program& program, std::map<std::string, KernelCase>* computations) {
  for (KernelCase& next : OperationsOf(program)) {
    const std::string key = next.operation;
    const auto [at, added] = computations->try_emplace(key, std::move(next));
    if (!added) at->second.uses = std::max(at->second.uses, next.uses);
  }
}

absl::StatusOr<TimedComputations> TimedComputations::OfAllRanks(
    const std::map<std::string, KernelCase>& mine, Communicator& control) {
  std::vector<std::string> lines;
  for (const auto& [key, timed] : mine) lines.push_back(absl::StrCat(CallsOf(timed), " ", key));
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeText(control, absl::StrJoin(lines, "\n")));
  std::map<std::string, int> merged;
  for (const std::string& of_rank : all) {
    for (absl::string_view line : absl::StrSplit(of_rank, '\n', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      int& calls = merged[std::string(words.second)];
      calls = std::max(calls, std::stoi(std::string(words.first)));
    }
  }
  TimedComputations found;
  for (const auto& [key, calls] : merged) {
    found.keys_.push_back(key);
    found.calls_.push_back(calls);
    const auto timed = mine.find(key);
    found.timed_.push_back(timed == mine.end() ? nullptr : &timed->second);
  }
  return found;
}

absl::StatusOr<ComputationRound> TimedComputations::Measure(Communicator& control,
                                                            Backend& backend) const {
  ComputationRound round;
  for (size_t i = 0; i < keys_.size(); ++i) {
    absl::StatusOr<double> mine = 0.0;
    if (timed_[i] != nullptr) mine = SecondsOf(*timed_[i], backend);
    ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(control, !mine.ok()));
    RETURN_IF_ERROR(mine.status());
    if (failed) return absl::InternalError(absl::StrCat(keys_[i], ": failed on another rank"));
    ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(control, {*mine}));
    const double slowest = std::max_element(all.begin(), all.end())->front();
    round.seconds.push_back(slowest);
    round.step_seconds += calls_[i] * slowest;
  }
  return round;
}

std::map<std::string, CostProfile::Number> TimedComputations::CostsOf(
    const std::vector<ComputationRound>& rounds) const {
  std::map<std::string, CostProfile::Number> costs;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (timed_[i] != nullptr) costs[keys_[i]] = CostOf(rounds, i);
  }
  return costs;
}

}  // namespace stretto::bench
