// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. A first look at what a step is made of (computation alone and a
// transfer alone) decides the warm-ups of the order "slack". Then parity: two steps of each order
// against two of the serial oracle, which is one for all orders that spread the layers alike. Then
// rounds, each of which measures the parts again and one step of every order. The simulator finds
// the ideal from the medians, and predicts each order from costs of another run, if they are given.

#include "worker/bench/pipeline/measure.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/engine/schedule/pipeline/slack.h"

namespace stretto::bench {
namespace {

using trainer::RankEngine;

double Seconds(const Interval& interval) {
  return static_cast<double>(interval.end - interval.begin) * 1e-9;
}

double SecondsBehindSend(const Program& program, const CostModel& cost) {
  double seconds = 0;
  for (OpId op : BehindSend(program)) seconds += cost.Alone(program, program.ops[op]);
  return seconds;
}

// By stage.
std::vector<int> WarmUpsOf(const EngineSpec& spec) {
  std::vector<int> warm_ups;
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const StageOfPipeline at =
        StageOfRank(spec, RankAt(spec, {.stage = stage}), spec.micro_batches);
    warm_ups.push_back(
        OrderFor(spec.schedule, at).InFlight(PassKind::kForward, PassKind::kBackward));
  }
  return warm_ups;
}

class Measurement {
 public:
  Measurement(const PipelineOptions& options, const Say& say) : options_(options), say_(say) {}

  absl::StatusOr<PipelineResult> Run() {
    RETURN_IF_ERROR(CheckCosts());
    ASSIGN_OR_RETURN(job_, MeasuredJob::Connect(MostChunksFirst(options_.specs), options_.ranks));
    ASSIGN_OR_RETURN(const auto parts, PartsMeasurement::Create(options_, *job_));
    for (const TimedProgram& part : parts->Programs()) RETURN_IF_ERROR(part.time());
    PipelineResult result;
    ASSIGN_OR_RETURN(result.parts, parts->Medians());
    std::vector<EngineSpec> specs;
    for (const OrderChoice& order : options_.orders) {
      ASSIGN_OR_RETURN(specs.emplace_back(), SpecOf(order, result.parts));
      result.orders.push_back({.order = order,
                               .schedule = specs.back().schedule.name,
                               .warm_ups = WarmUpsOf(specs.back()),
                               .steps = {}});
    }
    RETURN_IF_ERROR(CheckParity(specs));
    std::vector<TimedProgram> programs = parts->Programs();
    for (size_t i = 0; i < engines_.size(); ++i) {
      std::vector<double>* steps = &result.orders[i].steps;
      const auto time = [this, i, steps]() -> absl::Status {
        ASSIGN_OR_RETURN(const StepTime step, job_->Step(*engines_[i]));
        steps->push_back(step.seconds);
        return absl::OkStatus();
      };
      programs.push_back(Timed<double>(result.orders[i].order.name, steps, time,
                                       [](double seconds) { return seconds; }));
    }
    ASSIGN_OR_RETURN(result.rounds, TimeInRounds(programs, options_.ranks.repeats, 1, say_));
    ASSIGN_OR_RETURN(result.parts, parts->Medians());
    for (size_t i = 0; i < specs.size(); ++i)
      RETURN_IF_ERROR(Simulated(specs[i], result.parts, &result.orders[i]));
    return result;
  }

 private:
  absl::Status CheckCosts() const {
    if (!options_.costs) return absl::OkStatus();
    RETURN_IF_ERROR(ExpectThisCpu(*options_.costs));
    for (const auto& [spread, spec] : options_.specs) {
      for (Rank rank : IdRange<Rank>(spec.world_size())) {
        ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, rank));
        RETURN_IF_ERROR(ExpectOperations(*options_.costs, plan.program));
      }
    }
    return absl::OkStatus();
  }

  // What was measured decides the warm-ups of slack.
  absl::StatusOr<EngineSpec> SpecOf(const OrderChoice& order, const PipelineParts& parts) const {
    EngineSpec spec = options_.specs.at(order.spread);
    const bool slack = order.order == kSlackOrder;
    spec.schedule.pipeline = slack ? kDefaultPipeline : order.order;
    spec.schedule.wgrad_delay = order.delay;
    if (!slack) return spec;
    std::vector<StageSeconds> stages(static_cast<size_t>(spec.pp_size));
    for (Rank r : IdRange<Rank>(spec.world_size())) {
      ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, r));
      const StageSeconds& measured = parts.seconds[r.position()];
      StageSeconds& stage = stages.at(PlaceOf(spec, r).stage);
      stage.forward = std::max(stage.forward, measured.forward);
      stage.backward = std::max(stage.backward, measured.backward);
      stage.delayed = std::max(
          stage.delayed,
          SecondsBehindSend(plan.program, {.table = parts.tables.at(order.spread)[r.position()]}));
    }
    const std::vector<BoundarySeconds> boundaries(stages.size() - 1,
                                                  {parts.transfer_seconds, parts.transfer_seconds});
    spec.schedule.warm_up = SlackWarmUps(stages, boundaries, spec.micro_batches);
    return spec;
  }

  // Keeps the engines of the orders. Each spread of the layers has an oracle of its own.
  absl::Status CheckParity(const std::vector<EngineSpec>& specs) {
    std::map<Spread, std::vector<trainer::StepResult>> oracles;
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string& name = options_.orders[i].name;
      const auto [oracle, added] = oracles.try_emplace(options_.orders[i].spread);
      if (added) {
        ASSIGN_OR_RETURN(oracle->second, OracleOf(specs[i]));
      }
      ASSIGN_OR_RETURN(engines_.emplace_back(), job_->Make(specs[i], Variant::kSchedule));
      ASSIGN_OR_RETURN(const auto found, job_->FirstSteps(*engines_.back()));
      RETURN_IF_ERROR(job_->ExpectBits(absl::StrCat("order ", name), oracle->second, found));
      say_(absl::StrFormat("%s, warm-ups %s: %d steps bitwise equal to the serial oracle", name,
                           absl::StrJoin(WarmUpsOf(specs[i]), " "), trainer::kParitySteps));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<trainer::StepResult>> OracleOf(const EngineSpec& spec) {
    ASSIGN_OR_RETURN(const auto serial, job_->Make(spec, Variant::kSerialOracle));
    return job_->FirstSteps(*serial);
  }

  absl::Status Simulated(const EngineSpec& spec, const PipelineParts& parts, OrderResult* result) {
    ASSIGN_OR_RETURN(const auto plans, BuildPlans(spec));
    result->activation_bytes = plans.front().arenas[ArenaClass::kActivation];
    std::vector<CostModel> costs;
    for (const CostTable& table : parts.tables.at(result->order.spread))
      costs.push_back({.table = table});
    ASSIGN_OR_RETURN(result->ideal, Played(plans, costs));
    if (!options_.costs) return absl::OkStatus();
    for (CostModel& cost : costs) cost = ModelOf(*options_.costs);
    ASSIGN_OR_RETURN(result->simulated, Played(plans, costs));
    return absl::OkStatus();
  }

  // `costs` are of each rank.
  static absl::StatusOr<double> Played(const IdVector<Rank, RankPlan>& plans,
                                       const std::vector<CostModel>& costs) {
    std::vector<SimulatedRank> ranks;
    for (Rank r : plans.ids()) ranks.push_back({&plans[r].program, &costs[r.position()], {}});
    ASSIGN_OR_RETURN(const auto intervals, Simulate(ranks));
    double end = 0;
    for (const auto& of_rank : intervals) end = std::max(end, Seconds(SpanOf(of_rank)));
    return end;
  }

  const PipelineOptions& options_;
  const Say& say_;
  std::unique_ptr<MeasuredJob> job_;
  std::vector<std::unique_ptr<RankEngine>> engines_;  // by order
};

}  // namespace

double OrderResult::median() const { return MedianOf(steps); }

absl::StatusOr<PipelineResult> MeasurePipeline(const PipelineOptions& options, const Say& say) {
  return Measurement(options, say).Run();
}

}  // namespace stretto::bench
