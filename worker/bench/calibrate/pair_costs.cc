// SPDX-License-Identifier: Apache-2.0

// All pairs are made first, and then measured in rounds.

#include "worker/bench/calibrate/pair_costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/known_ratios.h"
#include "worker/bench/calibrate/pair_case.h"
#include "worker/bench/calibrate/turn_case.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// How long one repeat lasts at least, if that many calls suffice.
constexpr double kLeastPairSeconds = 0.2;
constexpr int kMostCalls = 64;
// What takes less is over before the other lane has woken up.
constexpr double kShortest = 1e-3;
// Of products that are shorter, thousands would be beside a call.
constexpr double kShortestProduct = 5e-5;
// Within how much what a pair loses is wanted, and within how much of the computation of a step if
// that is more.
constexpr double kWantedInterval = 0.03, kMostUncertain = 0.01;
// Within how much it must be known at last, by what is wanted.
constexpr double kMostByWanted = 2;
// The same beside a short collective. The wait for a turn is most of what that loses, and varies
// with where between two ticks of the kernel it begins.
constexpr double kMostTurnInterval = 0.3;

// How many times as long each side takes beside the other.
struct Beside {
  double compute = 1, communication = 1;
  double interval = 0;  // the larger one of the two
};

class PairMeasurement {
 public:
  PairMeasurement(const MeasuredAlone& alone, MeasuredJob& job, CollectiveCalls& calls,
                  const std::function<void(const std::string&)>& say)
      : alone_(alone), job_(job), calls_(calls), say_(say) {}

  absl::StatusOr<PairCosts> Run() {
    // Of each kind the shortest that is long enough, which all ranks agree on, else the longest. A
    // repeat takes three times as long as its collective.
    const auto suits_better = [&](const std::string& a, const std::string& b) {
      const double mine = SecondsOf(a), other = SecondsOf(b);
      const bool enough = mine >= kLeastCollectiveSeconds;
      if (enough != (other >= kLeastCollectiveSeconds)) return enough;
      return enough ? mine < other : mine > other;
    };
    std::map<CollectiveKind, std::string> taken;
    for (const auto& [name, collective] : alone_.collectives) {
      std::string& found = taken[KindOf(name)];
      if (found.empty() || suits_better(name, found)) found = name;
    }
    for (const auto& [kind, name] : taken) {
      for (ComputeClass compute : kComputeClasses) {
        // All ranks stop after the same round.
        ASSIGN_OR_RETURN(const double share, job_.Slowest(ShareOf(compute)));
        const double wanted = std::max(kWantedInterval, kMostUncertain / share);
        RETURN_IF_ERROR(Add(compute, name, {.wanted = wanted, .most = kMostByWanted * wanted}));
      }
      const std::string& shortest = ShortestOf(kind, name);
      if (AreOfTwoSizes(SecondsOf(shortest), SecondsOf(name))) RETURN_IF_ERROR(AddTurn(shortest));
    }
    RETURN_IF_ERROR(Measure());
    PairCosts costs;
    for (const auto& [kind, name] : taken) AddCosts(kind, name, &costs);
    return costs;
  }

 private:
  double SecondsOf(const std::string& collective) const {
    return alone_.collective_seconds.at(collective).value;
  }

  // Returns the shortest collective of a kind that is not latency alone.
  const std::string& ShortestOf(CollectiveKind kind, const std::string& name) const {
    const std::string* shortest = &name;
    for (const auto& [other, collective] : alone_.collectives) {
      const double seconds = SecondsOf(other);
      if (KindOf(other) == kind && seconds >= kShortest && seconds < SecondsOf(*shortest))
        shortest = &other;
    }
    return *shortest;
  }

  absl::Status Measure() {
    ASSIGN_OR_RETURN(const auto known, RepeatRatios(cases_));
    for (size_t i = 0; i < cases_.size(); ++i) {
      const KnownRatio& communication = known[i].back();
      if (known[i].size() == 1) {  // AddTurn's
        after_[cases_[i].what] = communication.mean;
        say_(absl::StrFormat("%s: %.3f times as long", cases_[i].what, communication.mean));
        continue;
      }
      const KnownRatio& compute = known[i].front();
      found_[cases_[i].what] = {.compute = compute.mean,
                                .communication = communication.mean,
                                .interval = std::max(compute.interval, communication.interval)};
      say_(absl::StrFormat("%s: %.3f and %.3f times as long", cases_[i].what, compute.mean,
                           communication.mean));
    }
    return absl::OkStatus();
  }

  // The costs of the pairs of a kind, of which `name` was measured.
  void AddCosts(CollectiveKind kind, const std::string& name, PairCosts* costs) const {
    const double turn = TurnBesideProducts(kind, name);
    for (ComputeClass compute : kComputeClasses) {
      const auto found = found_.find(PairName(compute, name));
      if (found == found_.end()) continue;
      const Beside& beside = found->second;
      (*costs)[{compute, kind}] = {
          .contention = ContentionOf(beside.compute, {SecondsOf(name), beside.communication}, turn),
          .spread = std::min(beside.interval, kMostSpread)};
    }
  }

  // Returns for how long a collective of a kind, of which `name` was measured, waits for its turn.
  double TurnBesideProducts(CollectiveKind kind, const std::string& name) const {
    const std::string& shortest = ShortestOf(kind, name);
    const auto small = after_.find(TurnName(shortest));
    const auto large = found_.find(PairName(ComputeClass::kProduct, name));
    if (small == after_.end() || large == found_.end() || shortest == name) return 0;
    const double turn = TurnOf({SecondsOf(shortest), small->second},
                               {SecondsOf(name), large->second.communication});
    say_(absl::StrFormat("%s beside products waits %.1f ms for its turn", InfoOf(kind).name,
                         turn * 1e3));
    return turn;
  }

  // Returns the operation of forward and backward that takes most of a step in its class; null if
  // this rank has none.
  const KernelCase* MostExpensive(ComputeClass compute) const {
    const KernelCase* most = nullptr;
    double seconds = 0;
    for (const auto& [key, timed] : alone_.computations) {
      if (IsOfOptimizer(timed) || ClassOf(timed.ops[0].kind) != compute) continue;
      const double found = timed.count * alone_.operations.at(key).value;
      if (found <= seconds) continue;
      most = &timed;
      seconds = found;
    }
    return most;
  }

  // Returns which part of the computation of forward and backward the class has.
  double ShareOf(ComputeClass compute) const {
    double of_class = 0, all = 0;
    for (const auto& [key, timed] : alone_.computations) {
      if (IsOfOptimizer(timed)) continue;
      const double seconds = timed.count * alone_.operations.at(key).value;
      all += seconds;
      if (ClassOf(timed.ops[0].kind) == compute) of_class += seconds;
    }
    return all > 0 ? of_class / all : 0;
  }

  // Adds a pair to those that are measured, if what runs is long enough.
  absl::Status Add(ComputeClass compute, const std::string& name, RatioInterval interval) {
    const KernelCase* timed = MostExpensive(compute);
    const std::string what = PairName(compute, name);
    const double call = SecondsOf(name),
                 operation = timed == nullptr ? 0 : alone_.operations.at(timed->operation).value;
    const double wanted = std::max({kLeastPairSeconds, 3 * call, 3 * operation});
    const int copies = CallsFor(operation, wanted, kMostCalls);
    const double reached = copies * operation;
    ASSIGN_OR_RETURN(const bool too_short,
                     trainer::AnyRank(job_.control(), std::min(reached, call) < kShortest));
    if (too_short) {
      say_(absl::StrCat(what, ": too short to be measured, the default holds"));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const double longest, job_.Slowest(reached));
    ASSIGN_OR_RETURN(auto pair, PairCase::Make(*timed, copies, alone_.collectives.at(name),
                                               CallsFor(call, longest, kMostCalls), job_, calls_));
    cases_.push_back({what, [pair] { return pair->Measure(); }, interval});
    return absl::OkStatus();
  }

  // Returns the product of forward and backward that releases a call best; null if this rank has
  // none.
  const KernelCase* ReleasingProduct() const {
    const KernelCase* found = nullptr;
    double seconds = 0;
    for (const auto& [key, timed] : alone_.computations) {
      if (IsOfOptimizer(timed) || ClassOf(timed.ops[0].kind) != ComputeClass::kProduct) continue;
      const double other = alone_.operations.at(key).value;
      if (found != nullptr && !ReleasesBetter(other, seconds)) continue;
      found = &timed;
      seconds = other;
    }
    return found;
  }

  // Adds the wait for a turn of a collective beside products, if both are long enough.
  absl::Status AddTurn(const std::string& name) {
    const KernelCase* timed = ReleasingProduct();
    const double operation = timed == nullptr ? 0 : alone_.operations.at(timed->operation).value;
    const double call = SecondsOf(name);
    ASSIGN_OR_RETURN(
        const bool too_short,
        trainer::AnyRank(job_.control(), operation < kShortestProduct || call < kShortest));
    if (too_short) {
      say_(absl::StrCat(TurnName(name), ": too short to be measured, transfers wait for no turn"));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(auto turn, TurnCase::Make(*timed, operation, alone_.collectives.at(name), call,
                                               job_, calls_));
    cases_.push_back({TurnName(name),
                      [turn] { return turn->Measure(); },
                      {.wanted = kWantedInterval, .most = kMostTurnInterval}});
    return absl::OkStatus();
  }

  static std::string TurnName(const std::string& collective) {
    return absl::StrCat(collective, " after a product, beside others");
  }
  static std::string PairName(ComputeClass compute, const std::string& collective) {
    return absl::StrCat(NameOf(compute), " beside ", collective);
  }

  // Of the name of a collective.
  static CollectiveKind KindOf(const std::string& name) {
    const std::vector<std::string> words = absl::StrSplit(name, ' ');
    const OpInfo* info = FindOp(words[1]);
    return info == nullptr ? CollectiveKind::kBroadcast : info->collective;
  }

  const MeasuredAlone& alone_;
  MeasuredJob& job_;
  CollectiveCalls& calls_;
  const std::function<void(const std::string&)>& say_;
  std::vector<RatioCase> cases_;
  std::map<std::string, Beside> found_;  // by PairName
  std::map<std::string, double> after_;  // by TurnName, how many times as long as alone
};

}  // namespace

absl::StatusOr<PairCosts> MeasurePairs(const MeasuredAlone& alone, MeasuredJob& job,
                                       CollectiveCalls& calls,
                                       const std::function<void(const std::string&)>& say) {
  return PairMeasurement(alone, job, calls, say).Run();
}

}  // namespace stretto::bench
