#include "worker/engine/schedule/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

struct Pass {
  const char* name;
  absl::Status (*run)(const EngineSpec&, StepProgram*);
};

struct Schedule {
  Pass order;
  bool synchronous;  // nothing runs under a collective
};

// The table of schedules: add a row here and a file beside megatron_sync.cc.
constexpr Schedule kSchedules[] = {
    {{"megatron_sync", MegatronSync}, true},
    {{"domino_row", DominoRow}, false},
};

absl::StatusOr<std::vector<Pass>> PassesFor(const EngineSpec& spec, Variant variant) {
  const Schedule* schedule = nullptr;
  for (const Schedule& candidate : kSchedules) {
    if (spec.schedule.name == candidate.order.name) schedule = &candidate;
  }
  if (schedule == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.name: found '", spec.schedule.name,
                                                   "', expected one of ",
                                                   absl::StrJoin(ScheduleNames(), ", ")));
  }
  std::vector<Pass> passes;
  if (variant == Variant::kSerialOracle) return passes;
  passes.push_back(schedule->order);
  if (variant == Variant::kComputeOnly) passes.push_back({"remove_collectives", RemoveCollectives});
  if (variant == Variant::kCommunicationOnly)
    passes.push_back({"keep_collectives", KeepCollectives});
  passes.push_back({"lanes_and_waits", AssignLanesAndWaits});
  if (schedule->synchronous) passes.push_back({"serialise_lanes", SerialiseLanes});
  return passes;
}

// A program that does not verify after a pass is our bug, not the user's.
absl::Status Verified(absl::Status status, absl::string_view pass) {
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("after pass ", pass, ": ", status.message()));
}

}  // namespace

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const Schedule& schedule : kSchedules) names.emplace_back(schedule.order.name);
  return names;
}

absl::StatusOr<RankPlan> BuildPlan(const EngineSpec& spec, int tp_rank, Variant variant) {
  ASSIGN_OR_RETURN(Emitted emitted, Emit(spec, tp_rank));
  ASSIGN_OR_RETURN(const std::vector<Pass> passes, PassesFor(spec, variant));
  RankPlan plan{.step = std::move(emitted.step),
                .program = {},
                .arenas = {},
                .buffers = std::move(emitted.buffers)};
  plan.program = Expand(plan.step);
  RETURN_IF_ERROR(Verified(Verify(plan.program), "emit"));
  for (const Pass& pass : passes) {
    RETURN_IF_ERROR(pass.run(spec, &plan.step));
    plan.program = Expand(plan.step);
    RETURN_IF_ERROR(Verified(Verify(plan.program), pass.name));
  }
  ASSIGN_OR_RETURN(plan.arenas, PlanMemory(&plan.program));
  RETURN_IF_ERROR(Verified(Verify(plan.program, &plan.arenas), "memory"));
  return plan;
}

absl::StatusOr<std::vector<RankPlan>> BuildPlans(const EngineSpec& spec, Variant variant) {
  RETURN_IF_ERROR(Validate(spec));
  std::vector<RankPlan> plans;
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.tp_size; ++rank) {
    ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, rank, variant));
    programs.push_back(plan.program);
    plans.push_back(std::move(plan));
  }
  RETURN_IF_ERROR(Verified(VerifyRanks(programs), "all ranks"));
  return plans;
}

}  // namespace stretto
