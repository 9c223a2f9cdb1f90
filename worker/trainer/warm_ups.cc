// SPDX-License-Identifier: Apache-2.0

// Two programs are measured, each in an engine that lives only meanwhile. Variant::kWithinStage of
// one micro-batch has the passes with the collectives of the stage's own ranks: its ledger has what
// they take. Variant::kTransfersOnly has what stages send each other. All of it is there from the
// start, so every link is loaded both ways at once, as in the middle of a step, and a transfer has
// taken as long as its receiver waits.
//
// The ranks then exchange their times and compute the same warm-ups from all of them. Memory is
// checked for the number of micro-batches beyond 1f1b: more of them take more memory everywhere, so
// a node finds its largest number by bisection, and the least of all nodes holds.

#include "worker/trainer/warm_ups.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/memory_check.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

constexpr int kMeasuredRuns = 3;

double Seconds(const Interval& interval) {
  return static_cast<double>(interval.end - interval.begin) * 1e-9;
}

class Measurement {
 public:
  Measurement(const JobConfig& config, const Sampler& sampler, const GroupLinks& training,
              Communicator& control, Backend& backend)
      : config_(config),
        sampler_(sampler),
        training_(training),
        control_(control),
        backend_(backend) {
    config_.engine.micro_batches = 1;
  }

  absl::StatusOr<PassTimes> Run() {
    PassTimes times;
    ASSIGN_OR_RETURN(times.stage, Passes());
    ASSIGN_OR_RETURN(times.received, Transfers());
    // Memory that peers still map from the last engine is not free yet.
    RETURN_IF_ERROR(control_.Run(Collective::Barrier()));
    return times;
  }

 private:
  absl::StatusOr<std::unique_ptr<RankEngine>> Make(Variant variant) {
    RETURN_IF_ERROR(control_.Run(Collective::Barrier()));
    return RankEngine::Create(config_.engine, config_.rank, variant, training_, backend_, {});
  }

  // Runs the engine and calls `take(begin)` after each run but the first, which touches the memory
  // and the links.
  template <class Take>
  absl::Status Runs(RankEngine& engine, Take take) {
    for (int run = 0; run <= kMeasuredRuns; ++run) {
      RETURN_IF_ERROR(control_.Run(Collective::Barrier()));
      const int64_t begin = NowNanoseconds();
      RETURN_IF_ERROR(engine.executor().Run());
      if (run > 0) take(begin);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StageSeconds> Passes() {
    ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(config_.engine, config_.rank));
    const size_t behind_send = BehindSend(plan.program).size();
    ASSIGN_OR_RETURN(const auto engine, Make(Variant::kWithinStage));
    RETURN_IF_ERROR(engine->Initialise(config_.seed));
    RETURN_IF_ERROR(FillStep(config_, sampler_, 0, 1, 0, *engine).status());
    std::vector<double> forward, backward, delayed;
    RETURN_IF_ERROR(Runs(*engine, [&](int64_t begin) {
      const auto intervals = engine->executor().intervals();
      const StepLedger ledger =
          ComputeLedger(engine->program(), intervals, {}, {begin, NowNanoseconds()});
      const auto in = [&](Phase phase) {
        double seconds = 0;
        for (const LedgerEntry& entry : ledger.entries)
          seconds += entry.phase == LongNameOf(phase) ? entry.seconds : 0;
        return seconds;
      };
      forward.push_back(in(Phase::kForward));
      backward.push_back(in(Phase::kRecompute) + in(Phase::kBackward));
      // Without sends, as many computations are at the end.
      std::vector<OpId> all;
      for (OpId id : engine->program().ops.ids()) {
        const Op& op = engine->program().ops[id];
        if (op.group < 0 && op.tag.micro_batch == 0) all.push_back(id);
      }
      double seconds = 0;
      for (size_t i = all.size() - std::min(all.size(), behind_send); i < all.size(); ++i)
        seconds += Seconds(intervals[all[i].position()]);
      delayed.push_back(seconds);
    }));
    return StageSeconds{
        .forward = Median(forward), .backward = Median(backward), .delayed = Median(delayed)};
  }

  absl::StatusOr<BoundarySeconds> Transfers() {
    ASSIGN_OR_RETURN(const auto engine, Make(Variant::kTransfersOnly));
    std::vector<double> forward, backward;
    RETURN_IF_ERROR(Runs(*engine, [&](int64_t begin) {
      BoundarySeconds last;
      for (OpId id : engine->program().ops.ids()) {
        const Op& op = engine->program().ops[id];
        if (op.kind == OpKind::kSend) continue;  // gathers complete what is received
        double& seconds = op.tag.phase == Phase::kForward ? last.forward : last.backward;
        const int64_t end = engine->executor().intervals()[id.position()].end;
        seconds = std::max(seconds, Seconds({begin, end}));
      }
      forward.push_back(last.forward);
      backward.push_back(last.backward);
    }));
    return BoundarySeconds{.forward = Median(forward), .backward = Median(backward)};
  }

  JobConfig config_;  // of one micro-batch
  const Sampler& sampler_;
  const GroupLinks& training_;
  Communicator& control_;
  Backend& backend_;
};

// A pair of seconds by stage or boundary, for the log.
template <class Of>
std::string SecondsText(const std::vector<Of>& all) {
  return absl::StrJoin(all, " ", [](std::string* out, const Of& of) {
    absl::StrAppendFormat(out, "%.4f/%.4f", of.forward, of.backward);
  });
}

}  // namespace

absl::StatusOr<PassTimes> MeasurePasses(const JobConfig& config, const Sampler& sampler,
                                        const GroupLinks& training, Communicator& control,
                                        Backend& backend) {
  return Measurement(config, sampler, training, control, backend).Run();
}

std::vector<int> WarmUpsBy(const EngineSpec& spec, const std::vector<PassTimes>& ranks) {
  std::vector<StageSeconds> stages(static_cast<size_t>(spec.pp_size));
  std::vector<BoundarySeconds> boundaries(stages.size() - 1);
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    const PassTimes& times = ranks[rank.position()];
    const auto stage = static_cast<size_t>(PlaceOf(spec, rank).stage);
    const auto slowest = [](double time, double* all) { *all = std::max(*all, time); };
    slowest(times.stage.forward, &stages[stage].forward);
    slowest(times.stage.backward, &stages[stage].backward);
    slowest(times.stage.delayed, &stages[stage].delayed);
    if (stage > 0) slowest(times.received.forward, &boundaries[stage - 1].forward);
    if (stage < boundaries.size()) slowest(times.received.backward, &boundaries[stage].backward);
  }
  spdlog::info("seconds of a micro-batch, forward/backward: stages {}, links {}",
               SecondsText(stages), SecondsText(boundaries));
  return SlackWarmUps(stages, boundaries, spec.micro_batches);
}

absl::StatusOr<int> MostExtraWarmUps(const std::vector<int>& warm_ups, int64_t available,
                                     JobConfig config) {
  int fits = 0, fits_not = 1;  // those of 1f1b have been found to fit
  for (int stage = 0; stage < config.engine.pp_size; ++stage) {
    const int fewest = config.engine.pp_size - stage;
    fits_not = std::max(fits_not, warm_ups[static_cast<size_t>(stage)] - fewest + 1);
  }
  while (fits_not - fits > 1) {
    const int middle = (fits + fits_not) / 2;
    config.engine.schedule.warm_up = WithAtMost(middle, warm_ups);
    ASSIGN_OR_RETURN(const std::vector<RankArenas> ranks, ArenasOf(config));
    (CheckMemory(ranks, config.on_gpu, available).ok() ? fits : fits_not) = middle;
  }
  return fits;
}

absl::Status AgreeOnWarmUps(const PassTimes& mine, int64_t available, Communicator& control,
                            JobConfig* config) {
  const StageSeconds& stage = mine.stage;
  ASSIGN_OR_RETURN(const auto numbers,
                   ExchangeNumbers(control, {stage.forward, stage.backward, stage.delayed,
                                             mine.received.forward, mine.received.backward}));
  std::vector<PassTimes> ranks;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    const std::vector<double>& of = numbers[rank];
    for (double seconds : of) {
      if (std::isfinite(seconds) && seconds >= 0) continue;
      return absl::InternalError(absl::StrCat("rank ", rank, ": found ", seconds,
                                              " as seconds of a micro-batch, expected 0 or more"));
    }
    ranks.push_back({.stage = {.forward = of[0], .backward = of[1], .delayed = of[2]},
                     .received = {.forward = of[3], .backward = of[4]}});
  }
  const std::vector<int> wanted = WarmUpsBy(config->engine, ranks);
  ASSIGN_OR_RETURN(const int most, MostExtraWarmUps(wanted, available, *config));
  ASSIGN_OR_RETURN(const auto all, ExchangeNumbers(control, {static_cast<double>(most)}));
  double extra = most;
  for (const std::vector<double>& of : all) extra = std::min(extra, of[0]);
  config->engine.schedule.warm_up = WithAtMost(static_cast<int>(extra), wanted);
  spdlog::info("warm-ups {} of {} micro-batches; without a limit of memory {}",
               absl::StrJoin(config->engine.schedule.warm_up, " "), config->engine.micro_batches,
               absl::StrJoin(wanted, " "));
  return absl::OkStatus();
}

}  // namespace stretto::trainer
