// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/pipeline/order.h"

#include <algorithm>

#include "proto/base/check.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

// In the order of kPipelines.
constexpr int (*kWarmUps[])(const StageOfPipeline&) = {
#define STRETTO_PIPELINE(order, ...) order,
#include "proto/spec/pipelines.inc"
#undef STRETTO_PIPELINE
};

int WarmUps(const ScheduleSpec& schedule, const StageOfPipeline& at) {
  const PipelineRules* rules = FindPipeline(schedule.pipeline);
  STRETTO_CHECK(rules != nullptr);
  const int warm_ups = schedule.warm_up.empty() ? kWarmUps[rules - kPipelines.data()](at)
                                                : schedule.warm_up.at(at.stage);
  return std::min(warm_ups, at.micro_batches);
}

}  // namespace

int PipelineOrder::InFlight(PassKind from, PassKind to) const {
  int now = 0, most = 0;
  for (const Turn& turn : turns) {
    if (turn.pass == from) most = std::max(most, ++now);
    if (turn.pass == to) --now;
  }
  return most;
}

int PipelineOrder::InFlight() const { return InFlight(PassKind::kForward, turns.back().pass); }

PipelineOrder InTurn(int warm_ups, int micro_batches) {
  STRETTO_CHECK(warm_ups >= 1);
  const int ahead = std::min(warm_ups, micro_batches) - 1;
  PipelineOrder order;
  for (int mb = 0; mb < ahead; ++mb)
    order.turns.push_back({.pass = PassKind::kForward, .micro_batch = mb});
  order.begin = ahead;
  for (int mb = 0; mb < micro_batches; ++mb) {
    if (mb + ahead < micro_batches)
      order.turns.push_back({.pass = PassKind::kForward, .micro_batch = mb + ahead});
    if (mb + ahead + 1 == micro_batches) order.end = static_cast<int>(order.turns.size()) + 1;
    order.turns.push_back({.pass = PassKind::kBackward, .micro_batch = mb});
  }
  order.period = 2;
  return order;
}

PipelineOrder OrderFor(const ScheduleSpec& schedule, const StageOfPipeline& at) {
  PipelineOrder order = InTurn(WarmUps(schedule, at), at.micro_batches);
  if (schedule.wgrad_delay != WgradDelay::kBubble) return order;
  StageOfPipeline first = at;
  first.stage = 0;
  return WithWeights(order, WarmUps(schedule, first) - WarmUps(schedule, at));
}

PipelineOrder OrderFor(const EngineSpec& spec, Rank rank, int micro_batches) {
  return OrderFor(
      spec.schedule,
      {.stage = PlaceOf(spec, rank).stage, .stages = spec.pp_size, .micro_batches = micro_batches});
}

}  // namespace stretto
