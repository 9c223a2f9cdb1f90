// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. First each rank measures its own computations, all ranks at
// once, as they compute in a step. Everything after that is in lockstep: collectives alone on a
// drained link; the largest of them for the CPU that it takes and for what an idle link saves up;
// then, for each class of computations and kind of collective, the class's most expensive operation
// beside the kind's largest collective. At last the ranks exchange their costs.

#include "worker/bench/calibrate/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/calibrate/computation_costs.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/calibrate/settled_part.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/common/process_cpu.h"
#include "worker/bench/kernels/measure.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// How long one repeat of a collective and of a pair lasts at least, if that many calls suffice.
constexpr double kLeastCollectiveSeconds = 0.05, kLeastPairSeconds = 0.2;
// Shorter collectives are latency alone. It depends on how soon threads wake up, which does not
// settle even on an idle machine, and is a small part of a step.
constexpr double kShortestSettled = 1e-3;
constexpr int kMostCalls = 64, kMostCollectives = 512;
// What takes less is over before the other lane has woken up.
constexpr double kShortestPair = 1e-3;
// Within how much of the computation of a step what a pair loses must be known.
constexpr double kMostUncertain = 0.01;

// Returns how many calls of `seconds` each take `least` seconds: 2 to `most`.
int CallsFor(double seconds, double least, int most) {
  return seconds * most < least ? most
                                : static_cast<int>(std::max(2.0, std::ceil(least / seconds)));
}

class Calibration {
 public:
  Calibration(const std::vector<EngineSpec>& specs, const RankFlags& ranks,
              const std::function<void(const std::string&)>& say)
      : specs_(specs), ranks_(ranks), say_(say) {}

  absl::StatusOr<CostProfile> Run() {
    ASSIGN_OR_RETURN(job_, MeasuredJob::Connect(specs_, ranks_));
    ASSIGN_OR_RETURN(profile_.machine, CpuKind());
    profile_.build = kBuildVersion;
    RETURN_IF_ERROR(CollectCases());
    say_(absl::StrFormat("%d computations and %d collectives", computations_.size(),
                         collectives_.size()));
    ASSIGN_OR_RETURN(profile_.operations, MeasureComputations(computations_, *job_));
    RETURN_IF_ERROR(MeasureCollectives());
    if (profile_.has_link()) RETURN_IF_ERROR(MeasurePairs());
    return Merge();
  }

 private:
  Communicator& control() { return job_->control(); }

  absl::Status CollectCases() {
    std::map<std::string, CollectiveCase> mine;
    for (const EngineSpec& spec : specs_) {
      ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, job_->rank()));
      for (KernelCase& next : OperationsOf(plan.program)) {
        const std::string key = next.operation;
        const auto [at, added] = computations_.try_emplace(key, std::move(next));
        if (!added) at->second.uses = std::max(at->second.uses, next.uses);
      }
      for (auto& [name, collective] : CollectivesOf(plan.program)) {
        const Group& group = plan.program.groups[collective.op.group];
        collective.op.group = FindGroup(job_->groups(), group.name);
        mine.try_emplace(name, std::move(collective));
      }
    }
    // All ranks walk one list; one that is not a member of a group only keeps step.
    std::vector<std::string> names;
    for (const auto& [name, each] : mine) names.push_back(name);
    ASSIGN_OR_RETURN(const auto all, trainer::ExchangeText(control(), absl::StrJoin(names, "\n")));
    for (const std::string& of_rank : all) {
      for (absl::string_view name : absl::StrSplit(of_rank, '\n', absl::SkipEmpty()))
        collectives_[std::string(name)];
    }
    for (auto& [name, each] : mine) collectives_[name] = std::move(each);
    return absl::OkStatus();
  }

  // Returns an executor of `calls` in sequence; null on a rank that does not take part.
  absl::StatusOr<std::unique_ptr<Executor>> MakeCalls(const CollectiveCase& collective, int calls) {
    if (collective.ranks == 0) return nullptr;
    CaseCopies none;
    none.step.lanes.push_back({"compute"});
    AddCalls(collective, calls, job_->groups(), &none.step);
    SetRank(&none.step);
    return MakeFilled(KernelCase{}, std::move(none), job_->links(), job_->backend());
  }

  void SetRank(StepProgram* step) const {
    step->rank = job_->rank();
    step->world_size = specs_[0].world_size();
  }

  // Runs it on a drained link and returns its seconds, of the slowest rank.
  absl::StatusOr<double> RunDrained(Executor* executor) {
    RETURN_IF_ERROR(DrainLink(control()));
    return RunNow(executor);
  }
  absl::StatusOr<double> RunNow(Executor* executor) {
    if (executor != nullptr) RETURN_IF_ERROR(executor->Run());
    return job_->Slowest(executor == nullptr ? 0 : SpanSeconds(executor->intervals()));
  }

  absl::Status MeasureCollectives() {
    SettledPart settled("communication");
    for (auto& [name, collective] : collectives_) {
      ASSIGN_OR_RETURN(auto executor, MakeCalls(collective, 1));
      ASSIGN_OR_RETURN(const double once, RunDrained(executor.get()));
      const int calls = CallsFor(once, kLeastCollectiveSeconds, kMostCollectives);
      ASSIGN_OR_RETURN(executor, MakeCalls(collective, calls));
      const auto measure = [&]() -> absl::StatusOr<std::vector<double>> {
        ASSIGN_OR_RETURN(const double seconds, RunDrained(executor.get()));
        return std::vector<double>{seconds / calls};
      };
      // One call is not enough to judge by: a collective of a few bytes can take a millisecond once.
      ASSIGN_OR_RETURN(const double median, MedianOfFew(measure));
      if (median < kShortestSettled) {
        alone_[name] = {median, 0};
      } else {
        ASSIGN_OR_RETURN(const Repeats found, Repeat(Values::kTimes, measure));
        alone_[name] = {found.medians[0], found.settled ? found.spread : 0};
        settled.Add(name, found, collective.count * alone_[name].value);
      }
      if (collective.ranks > 0) profile_.operations[collective.operation] = alone_[name];
    }
    RETURN_IF_ERROR(settled.ExpectMost(control()));
    return MeasureLink();
  }

  // The collective of the smallest step has the latency, that of the largest the bandwidth.
  absl::Status MeasureLink() {
    const auto less = [&](const auto& a, const auto& b) {
      return BytesOf(a.first) < BytesOf(b.first);
    };
    const auto [small, large] = std::minmax_element(collectives_.begin(), collectives_.end(), less);
    if (small == collectives_.end()) return absl::OkStatus();
    double latency = 0, bandwidth = 0;
    if (small->second.ranks > 0 && large->second.ranks > 0) {
      const LinkSteps least = StepsOf(small->second), most = StepsOf(large->second);
      latency = alone_[small->first].value / least.steps;
      const double transfer = alone_[large->first].value / most.steps - latency;
      bandwidth = transfer > 0 ? most.step_bytes / transfer : 0;
    }
    // A rank that takes no part in one of them has the others' figures.
    ASSIGN_OR_RETURN(latency, job_->Slowest(latency));
    ASSIGN_OR_RETURN(bandwidth, job_->Slowest(bandwidth));
    if (bandwidth == 0) {
      return UnsettledError(absl::StrCat("link: found a collective of ", BytesOf(large->first),
                                         " bytes as fast as one of ", BytesOf(small->first),
                                         ", expected larger ones to take longer"));
    }
    profile_.latency_seconds = {latency, alone_[small->first].spread};
    profile_.bytes_per_second = {bandwidth, alone_[large->first].spread};
    return MeasureShares(large->first);
  }

  // What a collective takes of the CPU, and what it saves on a link that was idle as long.
  absl::Status MeasureShares(const std::string& name) {
    ASSIGN_OR_RETURN(const auto executor, MakeCalls(collectives_[name], 1));
    std::vector<double> cpu, saved;
    for (int round = 0; round < kSettledRounds; ++round) {
      RETURN_IF_ERROR(DrainLink(control()));
      const double begin = ProcessCpuSeconds();
      ASSIGN_OR_RETURN(const double drained, RunNow(executor.get()));
      cpu.push_back(executor == nullptr ? 0 : (ProcessCpuSeconds() - begin) / drained);
      std::this_thread::sleep_for(std::chrono::duration<double>(drained));
      RETURN_IF_ERROR(control().Run(Collective::Barrier()));
      ASSIGN_OR_RETURN(const double rested, RunNow(executor.get()));
      saved.push_back(drained - rested);
    }
    constexpr double kLeastShare = 1e-6, kMostShare = 0.95;
    ASSIGN_OR_RETURN(const double share, job_->Slowest(MedianOf(cpu)));
    profile_.cpu_share = std::clamp(share, kLeastShare, kMostShare);
    profile_.burst_bytes = std::max(0.0, MedianOf(saved)) * profile_.bytes_per_second.value;
    return absl::OkStatus();
  }

  static int64_t BytesOf(const std::string& name) {
    return std::stoll(name.substr(name.rfind(' ') + 1));
  }
  static LinkSteps StepsOf(const CollectiveCase& collective) {
    return LinkStepsOf(collective.kind, collective.ranks, collective.wire_bytes);
  }

  absl::Status MeasurePairs() {
    // Of each kind the shortest that is long enough, which all ranks agree on, else the longest. A
    // repeat takes three times as long as its collective, and a pair up to kMostRounds repeats.
    const auto suits_better = [&](const std::string& a, const std::string& b) {
      const double mine = alone_[a].value, other = alone_[b].value;
      const bool enough = mine >= kLeastCollectiveSeconds;
      if (enough != (other >= kLeastCollectiveSeconds)) return enough;
      return enough ? mine < other : mine > other;
    };
    std::map<CollectiveKind, std::string> taken;
    for (const auto& [name, collective] : collectives_) {
      std::string& found = taken[KindOf(name)];
      if (found.empty() || suits_better(name, found)) found = name;
    }
    for (ComputeClass compute : kComputeClasses) {
      for (const auto& [kind, name] : taken) RETURN_IF_ERROR(MeasurePair(compute, name));
    }
    return absl::OkStatus();
  }

  // Returns the operation of forward and backward that takes most of a step in its class; null if
  // this rank has none.
  const KernelCase* MostExpensive(ComputeClass compute) const {
    const KernelCase* most = nullptr;
    double seconds = 0;
    for (const auto& [key, timed] : computations_) {
      const Op& op = timed.ops[0];
      if (ClassOf(op.kind) != compute || op.tag.phase == Phase::kOptimizer) continue;
      const double found = timed.count * profile_.operations.at(key).value;
      if (found <= seconds) continue;
      most = &timed;
      seconds = found;
    }
    return most;
  }

  // Returns which part of the computation of forward and backward the class has.
  double ShareOf(ComputeClass compute) const {
    double of_class = 0, all = 0;
    for (const auto& [key, timed] : computations_) {
      const Op& op = timed.ops[0];
      if (op.tag.phase == Phase::kOptimizer) continue;
      const double seconds = timed.count * profile_.operations.at(key).value;
      all += seconds;
      if (ClassOf(op.kind) == compute) of_class += seconds;
    }
    return all > 0 ? of_class / all : 0;
  }

  absl::Status MeasurePair(ComputeClass compute, const std::string& name) {
    const CollectiveCase& collective = collectives_[name];
    const KernelCase* timed = MostExpensive(compute);
    const std::string what = absl::StrCat(NameOf(compute), " beside ", name);
    const double call = alone_[name].value,
                 operation = timed == nullptr ? 0 : profile_.operations.at(timed->operation).value;
    const double wanted = std::max({kLeastPairSeconds, 3 * call, 3 * operation});
    const int copies = CallsFor(operation, wanted, kMostCalls);
    const double reached = copies * operation;
    ASSIGN_OR_RETURN(const bool too_short,
                     trainer::AnyRank(control(), std::min(reached, call) < kShortestPair));
    if (too_short) {
      say_(absl::StrCat(what, ": too short to be measured, the default holds"));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const double longest, job_->Slowest(reached));
    const int calls = CallsFor(call, longest, kMostCalls);
    const int sets = std::min(copies, CountFor(*timed, kWorkingSet));
    CaseCopies step = CopiesOf(*timed, copies, sets);
    if (collective.ranks > 0) AddCalls(collective, calls, job_->groups(), &step.step);
    SetRank(&step.step);
    Backend& backend = job_->backend();
    ASSIGN_OR_RETURN(const auto together,
                     MakeFilled(*timed, std::move(step), job_->links(), backend));
    ASSIGN_OR_RETURN(const auto computing,
                     MakeFilled(*timed, CopiesOf(*timed, copies, sets), {}, backend));
    ASSIGN_OR_RETURN(const auto moving, MakeCalls(collective, calls));
    // Alone in the same round, so that a machine whose speed drifts does not count as contention.
    const auto repeat = [&]() -> absl::StatusOr<std::vector<double>> {
      RETURN_IF_ERROR(computing->Run());
      ASSIGN_OR_RETURN(const double move, RunDrained(moving.get()));
      RETURN_IF_ERROR(DrainLink(control()));
      RETURN_IF_ERROR(together->Run());
      Progress progress{.seconds = 1, .compute = 1, .communication = 1};
      if (collective.ranks > 0) {
        progress = ProgressOf(together->intervals(), static_cast<size_t>(copies),
                              SpanSeconds(computing->intervals()) / copies, move / calls);
      }
      ASSIGN_OR_RETURN(const double slow, job_->Slowest(progress.compute_slowdown()));
      ASSIGN_OR_RETURN(const double late, job_->Slowest(progress.communication_slowdown()));
      return std::vector<double>{slow, late};
    };
    // All ranks stop after the same round.
    ASSIGN_OR_RETURN(const double share, job_->Slowest(ShareOf(compute)));
    const double most_interval = std::max(kMostInterval, kMostUncertain / share);
    ASSIGN_OR_RETURN(const Repeats settled, Settle(what, repeat, most_interval));
    const auto lost = [](double slowdown) { return 1 - 1 / slowdown; };
    const CollectiveKind kind = KindOf(name);
    profile_.pairs[{compute, kind}] = {
        .contention = {lost(settled.medians[0]), lost(settled.medians[1])},
        .spread = settled.spread <= kMostSpread ? settled.spread : 0};
    say_(absl::StrFormat("%s: %.3f and %.3f times as long", what, settled.medians[0],
                         settled.medians[1]));
    return absl::OkStatus();
  }

  // Of a name in `collectives_`.
  static CollectiveKind KindOf(const std::string& name) {
    const std::vector<std::string> words = absl::StrSplit(name, ' ');
    const OpInfo* info = FindOp(words[1]);
    return info == nullptr ? CollectiveKind::kBroadcast : info->collective;
  }

  // Takes the longest time of every operation, and what only other ranks have.
  absl::StatusOr<CostProfile> Merge() {
    ASSIGN_OR_RETURN(const auto all, trainer::ExchangeText(control(), Print(profile_)));
    for (const std::string& text : all) {
      ASSIGN_OR_RETURN(const CostProfile other, ParseCostProfile(text));
      RETURN_IF_ERROR(ExpectMachine(profile_, other.machine));
      for (const auto& [key, number] : other.operations) {
        CostProfile::Number& mine = profile_.operations[key];
        if (number.value > mine.value) mine = number;
      }
    }
    return profile_;
  }

  const std::vector<EngineSpec>& specs_;
  const RankFlags& ranks_;
  const std::function<void(const std::string&)>& say_;
  std::unique_ptr<MeasuredJob> job_;
  std::map<std::string, KernelCase> computations_;     // by OperationKey
  std::map<std::string, CollectiveCase> collectives_;  // of all ranks; of no ranks if not of this
  std::map<std::string, CostProfile::Number> alone_;   // of collectives, by name
  CostProfile profile_;
};

}  // namespace

absl::StatusOr<CostProfile> MeasureCosts(const std::vector<EngineSpec>& specs,
                                         const RankFlags& ranks,
                                         const std::function<void(const std::string&)>& say) {
  return Calibration(specs, ranks, say).Run();
}

}  // namespace stretto::bench
