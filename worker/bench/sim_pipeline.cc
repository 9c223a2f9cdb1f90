// SPDX-License-Identifier: Apache-2.0

// Plans one rank of each stage as a draft, which takes a fraction of the time of a proved plan:
// with 64 stages that is the difference between seconds and minutes. What does not fit together
// stops the simulation, which names the operations.

#include "worker/bench/sim_pipeline.h"

#include <algorithm>
#include <utility>

#include "proto/base/status_macros.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/schedules.h"
#include "worker/bench/sim_job.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

// Means over ranks, in seconds.
struct Means {
  double step = 0, compute = 0, exposed_tp = 0, exposed_dp = 0;
  // Neither computes nor waits for its own replica or stage.
  double waiting() const { return step - compute - exposed_tp - exposed_dp; }
};

absl::StatusOr<Means> Played(const EngineSpec& spec, const std::vector<RankPlan>& plans,
                             const CostModel& cost) {
  std::vector<SimulatedRank> ranks;
  for (const RankPlan& plan : plans)
    ranks.push_back({&plan.program, &cost, CopiesOf(spec, plan.program.rank)});
  ASSIGN_OR_RETURN(const auto intervals, Simulate(ranks));
  Interval step;
  for (const auto& of_rank : intervals) step.end = std::max(step.end, SpanOf(of_rank).end);
  Means means;
  const auto share = 1.0 / static_cast<double>(plans.size());  // stages have equally many ranks
  for (size_t i = 0; i < plans.size(); ++i) {
    const StepLedger ledger = ComputeLedger(plans[i].program, intervals[i], {}, step);
    means.step = ledger.seconds;
    for (const LedgerEntry& entry : ledger.entries) {
      const double seconds = entry.seconds * share;
      const bool computes =
          entry.part == LedgerPart::kComputeAlone || entry.part == LedgerPart::kComputeHiding;
      const bool exposed = entry.part == LedgerPart::kExposed;
      if (computes) means.compute += seconds;
      if (exposed && entry.group == kTpGroupName) means.exposed_tp += seconds;
      if (exposed && entry.group == kDpGroupName) means.exposed_dp += seconds;
    }
  }
  return means;
}

// What a rank sends to other stages.
int64_t SentBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::kSend) continue;
    const Buffer& x = program.buffers[BroughtBy(op)];
    bytes += x.count() * static_cast<int64_t>(SizeOf(WireTypeOf(op, x.dtype)));
  }
  return bytes;
}

// A rank of each stage.
absl::StatusOr<std::vector<RankPlan>> PlansOf(const EngineSpec& spec) {
  std::vector<RankPlan> plans;
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const Rank rank = RankAt(spec, {.stage = stage, .replica = 0, .tp_rank = 0});
    ASSIGN_OR_RETURN(plans.emplace_back(), DraftPlan(spec, rank));
  }
  return plans;
}

absl::StatusOr<PipelineFigures> Figures(EngineSpec spec, const CostModel& cost, bool find_plan) {
  ASSIGN_OR_RETURN(std::vector<RankPlan> plans, PlansOf(spec));
  KnownCosts known;
  for (const RankPlan& plan : plans) CountKnown(plan.program, cost.table, &known);
  RETURN_IF_ERROR(ExpectKnown(known, cost.table));
  std::vector<FoundWeave> cells;
  if (FindSchedule(spec.schedule.name)->weaves) {
    std::vector<const StepProgram*> steps;
    for (const RankPlan& plan : plans) steps.push_back(&plan.step);
    ASSIGN_OR_RETURN(cells, FindWeaves(steps, cost, spec.schedule.weave));
    if (find_plan) {
      spec.schedule.weave = PrintWeaves(cells);
      ASSIGN_OR_RETURN(plans, PlansOf(spec));
    }
  }
  CostModel free = cost;
  free.interconnect = {};
  ASSIGN_OR_RETURN(const Means ideal, Played(spec, plans, free));
  ASSIGN_OR_RETURN(const Means means, Played(spec, plans, cost));
  int64_t most_sent = 0;
  for (const RankPlan& plan : plans) most_sent = std::max(most_sent, SentBytes(plan.program));
  return PipelineFigures{.order = spec.schedule.pipeline,
                         .chunks = spec.chunks_per_stage,
                         .step = means.step,
                         .ideal = ideal.step,
                         .compute = means.compute,
                         .exposed_tp = means.exposed_tp,
                         .exposed_dp = means.exposed_dp,
                         .bubble = ideal.waiting(),
                         .exposed_pp = means.waiting() - ideal.waiting(),
                         .sent_bytes = most_sent,
                         .first_activation_bytes = plans.front().arenas[ArenaClass::kActivation],
                         .last_activation_bytes = plans.back().arenas[ArenaClass::kActivation],
                         .cells = std::move(cells),
                         .known = known};
}

const char* BlockingOrder() {
  return std::find_if(kPipelines.begin(), kPipelines.end(),
                      [](const PipelineRules& rules) { return rules.blocking; })
      ->name;
}

}  // namespace

absl::StatusOr<std::vector<PipelineFigures>> RunPipelines(EngineSpec plain,
                                                          const std::vector<EngineSpec>& specs,
                                                          const CostModel& cost, bool find_plan) {
  plain.pp_size = specs.front().pp_size;
  plain.schedule.pipeline = BlockingOrder();
  ASSIGN_OR_RETURN(const PipelineFigures blocking, Figures(plain, cost, find_plan));
  std::vector<PipelineFigures> all;
  for (const EngineSpec& row : specs) {
    if (row.schedule.pipeline == blocking.order) {
      all.push_back(blocking);
    } else {
      ASSIGN_OR_RETURN(all.emplace_back(), Figures(row, cost, find_plan));
    }
    all.back().blocking_step = blocking.step;
  }
  return all;
}

}  // namespace stretto
