// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_figures.h"

#include <algorithm>
#include <utility>

#include "proto/base/status_macros.h"
#include "proto/spec/schedules.h"
#include "worker/bench/sim_job.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

bool IsBackward(Phase phase) { return phase == Phase::kBackward || phase == Phase::kRecompute; }

// Returns the seconds covered by the collectives of the phases that `counts` accepts.
double Covered(const Program& program, const std::vector<Interval>& intervals,
               bool (*counts)(Phase)) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    const Interval& interval = intervals[id.position()];
    if (IsCollective(op.kind) && counts(op.tag.phase))
      taken.emplace_back(interval.begin, interval.end);
  }
  std::sort(taken.begin(), taken.end());
  int64_t covered = 0, until = 0;
  for (const auto& [begin, end] : taken) {
    covered += std::max<int64_t>(0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return static_cast<double>(covered) * 1e-9;
}

// Without nodes of several ranks, copies share nothing with the rank.
absl::StatusOr<std::vector<Interval>> IntervalsOf(const EngineSpec& spec, const Program& program,
                                                  const CostModel& cost) {
  if (cost.interconnect.topology.node.empty()) return Simulate(program, cost);
  const std::vector<SimulatedRank> ranks = {{&program, &cost, CopiesOf(spec, program.rank)}};
  ASSIGN_OR_RETURN(auto intervals, Simulate(ranks));
  return std::move(intervals.front());
}

absl::StatusOr<StepFigures> StepOf(const EngineSpec& spec, const Program& program,
                                   const CostModel& cost) {
  ASSIGN_OR_RETURN(std::vector<Interval> intervals, IntervalsOf(spec, program, cost));
  return FiguresOf(program, std::move(intervals));
}

absl::StatusOr<double> SecondsOf(const EngineSpec& spec, const Program& program,
                                 const CostModel& cost) {
  ASSIGN_OR_RETURN(const std::vector<Interval> intervals, IntervalsOf(spec, program, cost));
  return static_cast<double>(SpanOf(intervals).end) * 1e-9;
}

}  // namespace

StepFigures FiguresOf(const Program& program, std::vector<Interval> intervals) {
  StepFigures figures;
  figures.ledger = ComputeLedger(program, intervals, {}, SpanOf(intervals));
  figures.forward.communication =
      Covered(program, intervals, [](Phase phase) { return phase == Phase::kForward; });
  figures.backward.communication = Covered(program, intervals, IsBackward);
  for (const LedgerEntry& entry : figures.ledger.entries) {
    if (entry.part != LedgerPart::kExposed) continue;
    if (entry.phase == "forward") figures.forward.exposed += entry.seconds;
    if (entry.phase == "backward" || entry.phase == "recompute")
      figures.backward.exposed += entry.seconds;
  }
  figures.intervals = std::move(intervals);
  return figures;
}

absl::StatusOr<SimFigures> RunSim(EngineSpec spec, const CostModel& cost, bool find_plan) {
  SimFigures figures;
  ASSIGN_OR_RETURN(const RankPlan given, DraftPlan(spec, 0));
  CountKnown(given.program, cost.table, &figures.known);
  RETURN_IF_ERROR(ExpectKnown(figures.known, cost.table));
  if (FindSchedule(spec.schedule.name)->weaves) {
    ASSIGN_OR_RETURN(figures.cells, FindWeaves({&given.step}, cost, spec.schedule.weave));
    if (spec.model.layers * static_cast<int>(spec.schedule.slices.size()) <= kMostBlockLayers) {
      ASSIGN_OR_RETURN(figures.blocks,
                       FindWeaves({&given.step}, cost, spec.schedule.weave, WeaveForm::kBlocks));
    }
    if (find_plan) spec.schedule.weave = PrintWeaves(figures.cells);
  }
  ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, 0));
  figures.program = std::move(plan.program);
  ASSIGN_OR_RETURN(figures.step, StepOf(spec, figures.program, cost));
  CostModel uncontended = cost;
  uncontended.contention = {};
  uncontended.pairs = {};
  ASSIGN_OR_RETURN(figures.uncontended, StepOf(spec, figures.program, uncontended));

  ASSIGN_OR_RETURN(const RankPlan open, BuildPlan(spec, 0, Variant::kOpenTails));
  ASSIGN_OR_RETURN(figures.open_tails_seconds, SecondsOf(spec, open.program, cost));

  EngineSpec sync = spec;
  sync.schedule = {.name = "megatron_sync",
                   .slices = {spec.micro_batch_size},
                   .sequence_parallel = spec.schedule.sequence_parallel,
                   .recompute = spec.schedule.recompute};
  ASSIGN_OR_RETURN(const RankPlan baseline, BuildPlan(sync, 0));
  ASSIGN_OR_RETURN(figures.sync_seconds, SecondsOf(spec, baseline.program, cost));
  // Groups communicate at the same time, so the longest bounds the step.
  IdVector<GroupId, double> t_comm(baseline.program.groups.size());
  for (const Op& op : baseline.program.ops) {
    (op.group >= 0 ? t_comm[op.group] : figures.t_comp) += cost.Alone(baseline.program, op);
  }
  figures.t_comm = *std::max_element(t_comm.begin(), t_comm.end());
  figures.t_ideal_step =
      std::max(figures.t_comp + cost.contention.compute * figures.t_comm, figures.t_comm);
  return figures;
}

}  // namespace stretto
