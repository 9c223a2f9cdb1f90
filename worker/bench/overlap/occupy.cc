// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/occupy.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/work.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/collective_op.h"

namespace stretto::bench {
namespace {

double SecondsOf(const EmulatedLinkOptions& link, double bytes) {
  return absl::ToDoubleSeconds(link.latency) + bytes / link.bytes_per_second;
}

// Restores the lane of the first group, which a program without collectives lacks.
LaneId LaneOf(StepProgram* step) {
  STRETTO_CHECK(!step->groups.empty());
  const std::string name = LaneNameOf(step->groups[0]);
  for (LaneId lane : step->lanes.ids()) {
    if (step->lanes[lane].name == name) return lane;
  }
  return step->lanes.Add({name});
}

}  // namespace

Occupation OccupationOf(const Program& program, const EmulatedLinkOptions& link, double seconds) {
  Occupation largest;
  int64_t bytes = 0;
  for (const Op& op : program.ops) {
    if (!IsCollective(op.kind) || op.tag.phase == Phase::kOptimizer) continue;
    if (WireBytes(program, op) <= bytes) continue;
    bytes = WireBytes(program, op);
    largest.count = WholeTensorOf(program, op).count();
    largest.dtype = bytes == 2 * largest.count ? DType::kBF16 : DType::kF32;
  }
  STRETTO_CHECK(bytes > 0);
  const double each = SecondsOf(link, static_cast<double>(bytes));
  largest.calls = std::max(1, static_cast<int>(std::ceil(seconds / each)));
  return largest;
}

absl::Status Occupy(const Occupation& occupation, RankPlan* plan) {
  StepProgram& step = plan->step;
  const BufferId buffer = step.buffers.next();
  const Op call{.kind = OpKind::kAllReduce,
                .lane = LaneOf(&step),
                .group = 0,
                .tag = {.name = "occupy", .phase = Phase::kOptimizer},
                .in = {buffer},
                .out = {buffer},
                .attributes = {static_cast<int64_t>(occupation.dtype)},
                .waits = {}};
  step.buffers.push_back({.name = "occupied",
                          .dtype = occupation.dtype,
                          .shape = {occupation.count},
                          .arena = ArenaClass::kParameter});
  Unit* largest = nullptr;  // of those that have instances
  for (const Instance& instance : step.instances) {
    Unit& unit = step.units[instance.unit];
    if (largest == nullptr || unit.ops.size() > largest->ops.size()) largest = &unit;
  }
  const auto instances = absl::c_count_if(step.instances, [&](const Instance& instance) {
    return &step.units[instance.unit] == largest;
  });
  const auto each = (occupation.calls + instances - 1) / instances;
  largest->ops.insert(largest->ops.end(), static_cast<size_t>(each), call);
  plan->program = Expand(step);
  ASSIGN_OR_RETURN(plan->arenas, PlanMemory(&plan->program));
  const absl::Status verified = Verify(plan->program, &plan->arenas);
  if (verified.ok()) return verified;
  return absl::InternalError(absl::StrCat("occupied program: ", verified.message()));
}

double SecondsOf(const EmulatedLinkOptions& link, const Program& program, const Op& op) {
  const double share = InfoOf(InfoOf(op.kind).collective).ring_passes / 2.0;  // all_reduce: 1
  return SecondsOf(link, share * static_cast<double>(WireBytes(program, op)));
}

}  // namespace stretto::bench
