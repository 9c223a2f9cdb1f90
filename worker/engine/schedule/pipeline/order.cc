// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/pipeline/order.h"

#include <algorithm>

#include "proto/base/check.h"
#include "proto/spec/schedules.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

// In the order of kPipelines; null for a folded one.
constexpr int (*kWarmUps[])(const StageOfPipeline&) = {
#define STRETTO_PIPELINE(order, ...) order,
#define STRETTO_FOLDED_PIPELINE(...) nullptr,
#include "proto/spec/pipelines.inc"
#undef STRETTO_FOLDED_PIPELINE
#undef STRETTO_PIPELINE
};

int WarmUps(const ScheduleSpec& schedule, const StageOfPipeline& at) {
  const PipelineRules* rules = FindPipeline(schedule.pipeline);
  STRETTO_CHECK(rules != nullptr && !rules->folds);
  const int warm_ups = schedule.warm_up.empty() ? kWarmUps[rules - kPipelines.data()](at)
                                                : schedule.warm_up.at(at.stage);
  return std::min(warm_ups, at.micro_batches * at.chunks);
}

// After how many passes of a kind, and how many micro-batches, an order repeats.
struct Period {
  int passes = 1, micro_batches = 1;
};
Period PeriodOf(const StageOfPipeline& at) {
  if (at.chunks == 1) return {};
  return {.passes = at.stages * at.chunks, .micro_batches = at.stages};
}

int RoundDown(int count, int multiple) { return count - count % multiple; }

std::vector<Cell> OneByOne(const std::vector<Turn>& turns) {
  std::vector<Cell> cells;
  for (const Turn& turn : turns) cells.push_back({turn});
  return cells;
}

}  // namespace

int PipelineOrder::InFlight(PassKind from, PassKind to, int chunk) const {
  int now = 0, most = 0;
  for (const Cell& cell : cells) {
    for (const Turn& turn : cell) {
      if (turn.chunk != chunk) continue;
      if (turn.pass == from) most = std::max(most, ++now);
      if (turn.pass == to) --now;
    }
  }
  return most;
}

int PipelineOrder::InFlight() const {
  int most = 0, chunks = 1;
  for (const Cell& cell : cells) chunks = std::max(chunks, cell.front().chunk + 1);
  for (int chunk = 0; chunk < chunks; ++chunk)
    most = std::max(most, InFlight(PassKind::kForward, cells.back().back().pass, chunk));
  return most;
}

PipelineOrder ForwardAlone(const ScheduleSpec& schedule, const StageOfPipeline& at) {
  if (FindPipeline(schedule.pipeline)->folds) return Folded(at, /*backward=*/false);
  const Period period = PeriodOf(at);
  PipelineOrder order{.cells = OneByOne(PassesInTurn(PassKind::kForward, at))};
  order.end = RoundDown(static_cast<int>(order.cells.size()), period.passes);
  order.period = period.passes;
  order.stride = period.micro_batches;
  return order;
}

PipelineOrder InTurn(int warm_ups, const StageOfPipeline& at) {
  STRETTO_CHECK(warm_ups >= 1);
  const std::vector<Turn> forward = PassesInTurn(PassKind::kForward, at);
  const std::vector<Turn> backward = PassesInTurn(PassKind::kBackward, at);
  const Period period = PeriodOf(at);
  const auto passes = static_cast<int>(forward.size()), ahead = std::min(warm_ups, passes) - 1;
  // Passes of whole periods; a last group may have fewer micro-batches.
  const int whole = RoundDown(at.micro_batches, period.micro_batches) * at.chunks;
  PipelineOrder order;
  order.cells = OneByOne({forward.begin(), forward.begin() + ahead});
  for (int pass = 0; pass < passes; ++pass) {
    if (pass + ahead < passes) order.cells.push_back({forward[static_cast<size_t>(pass + ahead)]});
    order.cells.push_back({backward[static_cast<size_t>(pass)]});
  }
  order.begin = ahead;
  order.end = ahead + 2 * RoundDown(std::max(whole - ahead, 0), period.passes);
  order.period = 2 * period.passes;
  order.stride = period.micro_batches;
  return order;
}

PipelineOrder OrderFor(const ScheduleSpec& schedule, const StageOfPipeline& at) {
  if (FindSchedule(schedule.name)->weaves) return Folded(at);
  PipelineOrder order = InTurn(WarmUps(schedule, at), at);
  if (schedule.wgrad_delay != WgradDelay::kBubble) return order;
  STRETTO_CHECK(at.chunks == 1);
  StageOfPipeline first = at;
  first.stage = 0;
  return WithWeights(order, WarmUps(schedule, first) - WarmUps(schedule, at));
}

StageOfPipeline StageOfRank(const EngineSpec& spec, Rank rank, int micro_batches) {
  return {.stage = PlaceOf(spec, rank).stage,
          .stages = spec.pp_size,
          .micro_batches = micro_batches,
          .chunks = spec.chunks_per_stage};
}

}  // namespace stretto
