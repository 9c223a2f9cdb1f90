// Builds the program of a rank: emit, then the passes of its schedule in a fixed order, then
// memory.
//
// The table kSchedules says which parameters a schedule takes and which passes follow it; PassesFor
// turns a spec and a variant into the list of passes. With `prove`, the program is expanded and
// verified after every pass, so that an error names the pass that made it. Passes run on a
// shortened step with as many micro-batches as change anything; the step is lengthened to all of
// them before memory is planned.

#include "worker/engine/schedule/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/shortened.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

struct Pass {
  const char* name;
  absl::Status (*run)(const EngineSpec&, StepProgram*);
};

enum class Slices : uint8_t { kOne, kTwo, kAny };

struct Schedule {
  Pass order;
  Slices slices;
  bool splits = false;       // takes column pieces
  bool ours = false;         // weight gradients may be deferred, tails are closed
  bool synchronous = false;  // nothing runs under a collective
};

// The table of schedules: add a row here and a file beside domino_col.cc.
constexpr Schedule kSchedules[] = {
    {.order = {"megatron_sync", MegatronSync}, .slices = Slices::kOne, .synchronous = true},
    {.order = {"megatron_async", MegatronAsync}, .slices = Slices::kOne},
    {.order = {"domino_row", DominoRow}, .slices = Slices::kAny, .ours = true},
    {.order = {"domino_col", DominoCol}, .slices = Slices::kOne, .splits = true, .ours = true},
    {.order = {"domino_hybrid", DominoHybrid},
     .slices = Slices::kAny,
     .splits = true,
     .ours = true},
    {.order = {"domino_paper", DominoPaper}, .slices = Slices::kTwo},
    {.order = {"domino_release1", DominoRelease1}, .slices = Slices::kTwo},
    {.order = {"domino_intra", DominoIntra}, .slices = Slices::kTwo},
    {.order = {"domino_inter", DominoInter}, .slices = Slices::kTwo},
    {.order = {"nanotron", Nanotron}, .slices = Slices::kTwo},
};

absl::StatusOr<const Schedule*> Find(const std::string& name) {
  for (const Schedule& candidate : kSchedules) {
    if (name == candidate.order.name) return &candidate;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule.name: found '", name, "', expected one of ", absl::StrJoin(ScheduleNames(), ", ")));
}

absl::Status CheckParameters(const Schedule& schedule, const EngineSpec& spec) {
  const auto refuse = [&](const char* field, auto found, absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", schedule.order.name, ": ", field,
                                                   ": found ", found, ", expected ", expected));
  };
  const size_t slices = spec.schedule.slices.size();
  if (schedule.slices != Slices::kOne && spec.micro_batch_size < 2)
    return refuse("micro_batch_size", spec.micro_batch_size,
                  "at least 2: it cuts the batch into slices of whole sequences");
  if (schedule.slices == Slices::kOne && slices != 1) return refuse("slices", slices, "1");
  if (schedule.slices == Slices::kTwo && slices != 2)
    return refuse("slices", slices, "2, as published");
  if (!schedule.splits && spec.schedule.splits != 1)
    return refuse("splits", spec.schedule.splits, "1");
  if (!schedule.ours && spec.schedule.defer_wgrads != 0)
    return refuse("defer_wgrads", spec.schedule.defer_wgrads, "0");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Pass>> PassesFor(const EngineSpec& spec, Variant variant) {
  ASSIGN_OR_RETURN(const Schedule* schedule, Find(spec.schedule.name));
  RETURN_IF_ERROR(CheckParameters(*schedule, spec));
  const bool trains = variant != Variant::kEvaluation;
  std::vector<Pass> passes;
  if (trains) passes = {{"recompute", RecomputeActivations}, {"merge_wgrads", MergeWgrads}};
  if (variant == Variant::kSerialOracle) return passes;
  passes.push_back(schedule->order);
  if (trains && schedule->ours) {
    passes.push_back({"defer_wgrads", DeferWgrads});
    if (variant != Variant::kOpenTails) passes.push_back({"close_tails", CloseTails});
  }
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

namespace {

absl::StatusOr<RankPlan> Build(const EngineSpec& spec, int tp_rank, Variant variant, bool prove) {
  const bool trains = variant != Variant::kEvaluation;
  ASSIGN_OR_RETURN(Emitted emitted, Emit(spec, tp_rank, trains ? Extent::kStep : Extent::kForward));
  ASSIGN_OR_RETURN(const std::vector<Pass> passes, PassesFor(spec, variant));
  RankPlan plan{.step = Shortened(emitted.step, std::max(1, spec.schedule.merge_wgrads)),
                .program = {},
                .arenas = {},
                .buffers = std::move(emitted.buffers)};
  const auto proved = [&](absl::string_view pass) {
    if (!prove) return absl::OkStatus();
    plan.program = Expand(plan.step);
    return Verified(Verify(plan.program), pass);
  };
  RETURN_IF_ERROR(proved("emit"));
  for (const Pass& pass : passes) {
    RETURN_IF_ERROR(pass.run(spec, &plan.step));
    RETURN_IF_ERROR(proved(pass.name));
  }
  plan.step = Lengthened(plan.step, trains ? spec.micro_batches : 1);
  plan.program = Expand(plan.step);
  ASSIGN_OR_RETURN(plan.arenas, PlanMemory(&plan.program));
  if (prove) RETURN_IF_ERROR(Verified(Verify(plan.program, &plan.arenas), "memory"));
  return plan;
}

}  // namespace

absl::StatusOr<RankPlan> BuildPlan(const EngineSpec& spec, int tp_rank, Variant variant) {
  return Build(spec, tp_rank, variant, /*prove=*/true);
}

absl::StatusOr<RankPlan> DraftPlan(const EngineSpec& spec, int tp_rank, Variant variant) {
  return Build(spec, tp_rank, variant, /*prove=*/false);
}

absl::StatusOr<ArenaBytes> PlanArenas(const EngineSpec& spec, int tp_rank, Variant variant) {
  ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, tp_rank, variant));
  return plan.arenas;
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
