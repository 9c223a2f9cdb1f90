// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. First each rank measures its own computations, all ranks at
// once, as they compute in a step. Everything after that is in lockstep: collectives alone on a
// drained link; the largest of them for the CPU that it takes, and one for what an idle link saves
// up; then pairs (pair_costs.h). At last the ranks exchange their costs.

#include "worker/bench/calibrate/measure.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "worker/bench/calibrate/collective_calls.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/calibrate/pair_costs.h"
#include "worker/bench/calibrate/quiet_rounds.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/calibrate/settled_part.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/common/process_cpu.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// Shorter collectives are latency alone. It depends on how soon threads wake up, which does not
// settle even on an idle machine, and is a small part of a step.
constexpr double kShortestSettled = 1e-3;
constexpr int kMostCollectives = 512;
// A burst is a small difference of two times.
constexpr int kBurstRounds = 15;

class Calibration {
 public:
  Calibration(const std::vector<EngineSpec>& specs, const RankFlags& ranks,
              const std::function<void(const std::string&)>& say)
      : specs_(specs), ranks_(ranks), say_(say) {}

  absl::StatusOr<CostProfile> Run() {
    ASSIGN_OR_RETURN(job_, MeasuredJob::Connect(specs_, ranks_));
    calls_.emplace(*job_, specs_[0].world_size());
    ASSIGN_OR_RETURN(profile_.machine, CpuKind());
    profile_.build = kBuildVersion;
    RETURN_IF_ERROR(CollectCases());
    say_(absl::StrFormat("%d computations and %d collectives", computations_.size(),
                         collectives_.size()));
    RETURN_IF_ERROR(MeasureComputations());
    RETURN_IF_ERROR(MeasureCollectives());
    if (profile_.has_link()) {
      ASSIGN_OR_RETURN(profile_.pairs, MeasurePairs({.computations = computations_,
                                                     .operations = profile_.operations,
                                                     .collectives = collectives_,
                                                     .collective_seconds = alone_},
                                                    *job_, *calls_, say_));
    }
    return Merge();
  }

 private:
  Communicator& control() { return job_->control(); }

  absl::Status CollectCases() {
    std::map<std::string, CollectiveCase> mine;
    for (const EngineSpec& spec : specs_) {
      ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, job_->rank()));
      AddComputations(plan.program, &computations_);
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

  absl::Status MeasureComputations() {
    ASSIGN_OR_RETURN(const auto all, TimedComputations::OfAllRanks(computations_, control()));
    const auto measure = [&] { return all.Measure(control(), job_->backend()); };
    ASSIGN_OR_RETURN(const std::vector<ComputationRound> rounds, RepeatRounds(measure));
    profile_.operations = all.CostsOf(rounds);
    return absl::OkStatus();
  }

  absl::Status MeasureCollectives() {
    SettledPart settled;
    for (auto& [name, collective] : collectives_) {
      ASSIGN_OR_RETURN(auto executor, calls_->Make(collective, 1));
      ASSIGN_OR_RETURN(const double once, calls_->RunDrained(executor.get()));
      const int calls = CallsFor(once, kLeastCollectiveSeconds, kMostCollectives);
      ASSIGN_OR_RETURN(executor, calls_->Make(collective, calls));
      const auto measure = [&]() -> absl::StatusOr<double> {
        ASSIGN_OR_RETURN(const double seconds, calls_->RunDrained(executor.get()));
        return seconds / calls;
      };
      // One call is not enough to judge by: a collective of a few bytes can take a millisecond
      // once.
      ASSIGN_OR_RETURN(const Repeats few, Repeat(Values::kAny, measure));
      if (few.median < kShortestSettled) {
        alone_[name] = {few.median, 0};
      } else {
        ASSIGN_OR_RETURN(const Repeats found, Repeat(Values::kTimes, measure));
        alone_[name] = {found.median, found.spread_of_cost()};
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
    RETURN_IF_ERROR(MeasureShare(large->first));
    return MeasureBurst();
  }

  // What a collective takes of the CPU.
  absl::Status MeasureShare(const std::string& name) {
    ASSIGN_OR_RETURN(const auto executor, calls_->Make(collectives_[name], 1));
    std::vector<double> cpu;
    for (int round = 0; round < kSettledRounds; ++round) {
      RETURN_IF_ERROR(DrainLink(control()));
      const double begin = ProcessCpuSeconds();
      ASSIGN_OR_RETURN(const double seconds, calls_->Run(executor.get()));
      cpu.push_back(executor == nullptr ? 0 : (ProcessCpuSeconds() - begin) / seconds);
    }
    constexpr double kLeastShare = 1e-6;
    ASSIGN_OR_RETURN(const double share, job_->Slowest(MedianOf(cpu)));
    profile_.cpu_share = std::clamp(share, kLeastShare, kMostContention);
    return absl::OkStatus();
  }

  // A call after a pause that fills any bucket is faster than one in a row by what the link has
  // saved up. A single call after a drain does not show that: the bucket fills until all ranks
  // have begun.
  absl::Status MeasureBurst() {
    const std::string& name = ShortestAbove(kMostBucketBytes);
    const int in_row = CallsFor(alone_[name].value, kLeastCollectiveSeconds, kMostCollectives);
    ASSIGN_OR_RETURN(const auto row, calls_->Make(collectives_[name], in_row));
    ASSIGN_OR_RETURN(const auto one, calls_->Make(collectives_[name], 1));
    const std::chrono::duration<double> pause(kMostBucketBytes / profile_.bytes_per_second.value);
    std::vector<double> saved;
    for (int round = 0; round < kBurstRounds; ++round) {
      ASSIGN_OR_RETURN(const double seconds, calls_->RunDrained(row.get()));
      std::this_thread::sleep_for(pause);
      RETURN_IF_ERROR(control().Run(Collective::Barrier()));
      ASSIGN_OR_RETURN(const double rested, calls_->RunFromLast(one.get()));
      saved.push_back(seconds / in_row - rested);
    }
    profile_.burst_bytes = std::max(0.0, MedianOf(saved)) * profile_.bytes_per_second.value;
    say_(absl::StrFormat("the link saves up %.0f KB", profile_.burst_bytes / 1e3));
    return absl::OkStatus();
  }

  // Returns the shortest collective of at least `bytes`, or the largest one.
  const std::string& ShortestAbove(int64_t bytes) const {
    const auto suits_better = [&](const auto& a, const auto& b) {
      const int64_t mine = BytesOf(a.first), other = BytesOf(b.first);
      if ((mine >= bytes) != (other >= bytes)) return mine >= bytes;
      return mine >= bytes ? mine < other : mine > other;
    };
    return std::min_element(collectives_.begin(), collectives_.end(), suits_better)->first;
  }

  static int64_t BytesOf(const std::string& name) {
    return std::stoll(name.substr(name.rfind(' ') + 1));
  }
  static LinkSteps StepsOf(const CollectiveCase& collective) {
    return LinkStepsOf(collective.kind, collective.ranks, collective.wire_bytes);
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
  std::optional<CollectiveCalls> calls_;               // of the job
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
