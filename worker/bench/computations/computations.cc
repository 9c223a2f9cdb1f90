// SPDX-License-Identifier: Apache-2.0

// A computation runs on copies of its operands, so that they are in a cache about as often as in a
// step. Every round measures all computations once, so that the repeats of each spread over minutes
// and a machine whose speed changes within them makes no shape cheaper than another. All ranks that
// have a computation run it at once. The times of a round are those of the rank whose computations
// take longest together, as the time of a step is, and of other ranks what it lacks. The slowest
// rank of each repeat would make a step 1.5 % longer than any rank's.

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

// Returns how many times a predicted step calls it.
int CallsOf(const KernelCase& timed) { return IsOfOptimizer(timed) ? 0 : timed.count; }

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
  std::vector<double> mine;  // 0 of what this rank lacks
  for (size_t i = 0; i < keys_.size(); ++i) {
    absl::StatusOr<double> seconds = 0.0;
    if (timed_[i] != nullptr) seconds = SecondsOf(*timed_[i], backend);
    ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(control, !seconds.ok()));
    RETURN_IF_ERROR(seconds.status());
    if (failed) return absl::InternalError(absl::StrCat(keys_[i], ": failed on another rank"));
    mine.push_back(*seconds);
  }
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(control, mine));
  return RoundOf(all, calls_);
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
