// SPDX-License-Identifier: Apache-2.0

// The two run in one program, on lanes of their own. In the same round each runs alone, so that a
// machine whose speed drifts does not count as contention.

#include "worker/bench/calibrate/pair_costs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// How long one repeat lasts at least, if that many calls suffice.
constexpr double kLeastPairSeconds = 0.2;
constexpr int kMostCalls = 64;
// What takes less is over before the other lane has woken up.
constexpr double kShortest = 1e-3;
// Within how much of the computation of a step what a pair loses must be known.
constexpr double kMostUncertain = 0.01;
// Within how much what a short collective loses must be known. The wait for a turn is most of that,
// and varies with where in an operation the collective begins.
constexpr double kMostTurnInterval = 0.2;

// How many times as long each side takes beside the other.
struct Beside {
  double compute = 1, communication = 1;
  double spread = 0;
};

class PairMeasurement {
 public:
  PairMeasurement(const MeasuredAlone& alone, MeasuredJob& job, CollectiveCalls& calls,
                  const std::function<void(const std::string&)>& say)
      : alone_(alone), job_(job), calls_(calls), say_(say) {}

  absl::StatusOr<PairCosts> Run() {
    // Of each kind the shortest that is long enough, which all ranks agree on, else the longest. A
    // repeat takes three times as long as its collective, and a pair up to kMostRounds repeats.
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
    for (const auto& [kind, name] : taken) RETURN_IF_ERROR(MeasureKind(kind, name));
    return std::move(pairs_);
  }

 private:
  double SecondsOf(const std::string& collective) const {
    return alone_.collective_seconds.at(collective).value;
  }

  // The pairs of a kind, of which `name` is measured.
  absl::Status MeasureKind(CollectiveKind kind, const std::string& name) {
    double turn = 0;
    for (ComputeClass compute : kComputeClasses) {
      // All ranks stop after the same round.
      ASSIGN_OR_RETURN(const double share, job_.Slowest(ShareOf(compute)));
      ASSIGN_OR_RETURN(const std::optional<Beside> found,
                       Measure(compute, name, std::max(kMostInterval, kMostUncertain / share)));
      if (!found) continue;
      if (compute == ComputeClass::kProduct) {
        ASSIGN_OR_RETURN(turn, MeasureTurn(kind, name, *found));
      }
      const auto lost = [](double slowdown) { return 1 - 1 / std::max(1.0, slowdown); };
      pairs_[{compute, kind}] = {
          .contention = {.compute = lost(found->compute),
                         .communication = lost(found->communication - turn / SecondsOf(name)),
                         .turn_seconds = turn},
          .spread = found->spread};
    }
    return absl::OkStatus();
  }

  // Returns for how long a collective of a kind waits for its turn beside products. `large` is what
  // was measured with `name`.
  absl::StatusOr<double> MeasureTurn(CollectiveKind kind, const std::string& name,
                                     const Beside& large) {
    std::string shortest = name;
    for (const auto& [other, collective] : alone_.collectives) {
      const double seconds = SecondsOf(other);
      if (KindOf(other) == kind && seconds >= kShortest && seconds < SecondsOf(shortest))
        shortest = other;
    }
    if (!AreOfTwoSizes(SecondsOf(shortest), SecondsOf(name))) return 0;
    ASSIGN_OR_RETURN(const std::optional<Beside> small,
                     Measure(ComputeClass::kProduct, shortest, kMostTurnInterval));
    if (!small) return 0;
    const double turn =
        TurnOf({SecondsOf(shortest), small->communication}, {SecondsOf(name), large.communication});
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
      const Op& op = timed.ops[0];
      if (ClassOf(op.kind) != compute || op.tag.phase == Phase::kOptimizer) continue;
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
      const Op& op = timed.ops[0];
      if (op.tag.phase == Phase::kOptimizer) continue;
      const double seconds = timed.count * alone_.operations.at(key).value;
      all += seconds;
      if (ClassOf(op.kind) == compute) of_class += seconds;
    }
    return all > 0 ? of_class / all : 0;
  }

  // What each loses settles when its median is known within `most_interval`. Returns nothing if what
  // runs is too short.
  absl::StatusOr<std::optional<Beside>> Measure(ComputeClass compute, const std::string& name,
                                                double most_interval) {
    const CollectiveCase& collective = alone_.collectives.at(name);
    const KernelCase* timed = MostExpensive(compute);
    const std::string what = absl::StrCat(NameOf(compute), " beside ", name);
    const double call = SecondsOf(name),
                 operation = timed == nullptr ? 0 : alone_.operations.at(timed->operation).value;
    const double wanted = std::max({kLeastPairSeconds, 3 * call, 3 * operation});
    const int copies = CallsFor(operation, wanted, kMostCalls);
    const double reached = copies * operation;
    ASSIGN_OR_RETURN(const bool too_short,
                     trainer::AnyRank(job_.control(), std::min(reached, call) < kShortest));
    if (too_short) {
      say_(absl::StrCat(what, ": too short to be measured, the default holds"));
      return std::nullopt;
    }
    ASSIGN_OR_RETURN(const double longest, job_.Slowest(reached));
    const int calls = CallsFor(call, longest, kMostCalls);
    const int sets = std::min(copies, CountFor(*timed, kWorkingSet));
    ASSIGN_OR_RETURN(const auto together,
                     calls_.MakeBeside(*timed, CopiesOf(*timed, copies, sets), collective, calls));
    ASSIGN_OR_RETURN(const auto computing,
                     MakeFilled(*timed, CopiesOf(*timed, copies, sets), {}, job_.backend()));
    ASSIGN_OR_RETURN(const auto moving, calls_.Make(collective, calls));
    const auto repeat = [&]() -> absl::StatusOr<std::vector<double>> {
      RETURN_IF_ERROR(computing->Run());
      ASSIGN_OR_RETURN(const double move, calls_.RunDrained(moving.get()));
      RETURN_IF_ERROR(DrainLink(job_.control()));
      RETURN_IF_ERROR(together->Run());
      Progress progress{.seconds = 1, .compute = 1, .communication = 1};
      if (collective.ranks > 0) {
        progress = ProgressOf(together->intervals(), static_cast<size_t>(copies),
                              SpanSeconds(computing->intervals()) / copies, move / calls);
      }
      ASSIGN_OR_RETURN(const double slow, job_.Slowest(progress.compute_slowdown()));
      ASSIGN_OR_RETURN(const double late, job_.Slowest(progress.communication_slowdown()));
      return std::vector<double>{slow, late};
    };
    ASSIGN_OR_RETURN(const Repeats settled, Settle(what, repeat, most_interval));
    say_(absl::StrFormat("%s: %.3f and %.3f times as long", what, settled.medians[0],
                         settled.medians[1]));
    return Beside{.compute = settled.medians[0],
                  .communication = settled.medians[1],
                  .spread = settled.spread_of_cost()};
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
  PairCosts pairs_;
};

}  // namespace

absl::StatusOr<PairCosts> MeasurePairs(const MeasuredAlone& alone, MeasuredJob& job,
                                       CollectiveCalls& calls,
                                       const std::function<void(const std::string&)>& say) {
  return PairMeasurement(alone, job, calls, say).Run();
}

}  // namespace stretto::bench
