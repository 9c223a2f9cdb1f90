// SPDX-License-Identifier: Apache-2.0

// Builds the program of a rank: emits the mathematics, runs the passes of the schedule in a fixed
// order, and plans memory.
//
// The table kSchedules defines which parameters a schedule takes and which passes follow it;
// PassesFor turns a spec and a variant into the list of passes. With `prove`, the program is
// expanded and verified after every pass, so that an error names the pass that caused it. Passes
// run on a shortened step, which has just enough micro-batches to show every kind of neighbour; the
// step is lengthened to its full number before memory is planned.

#include "worker/engine/schedule/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/shortened.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {
namespace {

// Returns the index of the schedule's row, which is the same in kSchedules and kOrders.
size_t IndexOf(const std::string& name) {
  const ScheduleRules* rules = FindSchedule(name);
  STRETTO_CHECK(rules != nullptr);
  return rules - kSchedules.data();
}

// Whether the program leaves out operations, so that its results mean nothing.
bool Measures(Variant variant) {
  switch (variant) {
    case Variant::kComputeOnly:
    case Variant::kCommunicationOnly:
    case Variant::kWithinStage:
    case Variant::kTransfersOnly:
      return true;
    case Variant::kSchedule:
    case Variant::kSerialOracle:
    case Variant::kOpenTails:
    case Variant::kEvaluation:
      return false;
  }
  return false;
}

std::vector<Pass> PassesFor(const EngineSpec& spec, Variant variant) {
  const size_t index = IndexOf(spec.schedule.name);
  const ScheduleRules& schedule = kSchedules[index];
  const bool trains = variant != Variant::kEvaluation;
  const bool pipeline = spec.pp_size > 1;
  std::vector<Pass> passes;
  // These passes run for the oracle too: they change the operations, and the oracle must run the
  // same ones. All later passes only arrange them.
  if (trains) passes = {{"recompute", RecomputeActivations}, {"merge_wgrads", MergeWgrads}};
  if (variant == Variant::kSerialOracle) return passes;
  if (spec.chunks_per_stage > 1) passes.push_back({"split_chunks", SplitChunks});
  passes.push_back({schedule.name, kOrders[index]});
  if (trains && schedule.defers) passes.push_back({"defer_wgrads", DeferWgrads});
  if (trains) passes.push_back({"finish_buckets", FinishBuckets});
  if (pipeline) passes.push_back({"pipeline", ArrangePipeline});
  const bool blocks = pipeline && FindPipeline(spec.schedule.pipeline)->blocking;
  const bool closes = trains && schedule.defers && !blocks && spec.chunks_per_stage == 1;
  if (closes && variant != Variant::kOpenTails) passes.push_back({"close_tails", CloseTails});
  if (variant == Variant::kComputeOnly) passes.push_back({"remove_collectives", RemoveCollectives});
  if (variant == Variant::kCommunicationOnly)
    passes.push_back({"keep_collectives", KeepCollectives});
  if (variant == Variant::kWithinStage) passes.push_back({"stay_within_stage", StayWithinStage});
  if (variant == Variant::kTransfersOnly) passes.push_back({"keep_transfers", KeepTransfers});
  passes.push_back({"lanes_and_waits", AssignLanesAndWaits});
  if (schedule.synchronous) passes.push_back({"serialise_lanes", SerialiseLanes});
  const bool computes =
      variant != Variant::kCommunicationOnly && variant != Variant::kTransfersOnly;
  if (blocks && trains && computes) passes.push_back({"block_transfers", BlockTransfers});
  return passes;
}

// Returns by how many micro-batches the finished step repeats.
int RepeatsBy(const EngineSpec& spec, bool trains) {
  if (spec.chunks_per_stage > 1) return spec.pp_size;
  return trains ? std::max(1, spec.schedule.merge_wgrads) : 1;
}

// Returns a bound for the copies of a buffer that passes will ask for.
int MostSlots(const EngineSpec& spec, Rank rank, bool trains) {
  if (spec.pp_size == 1 || !trains) return 2 * RepeatsBy(spec, trains);
  // One more where a transfer leaves or arrives, and one where passes overlap.
  return OrderFor(spec.schedule, StageOfRank(spec, rank, spec.micro_batches)).InFlight() + 2;
}

// Reports a program that fails verification after a pass as Internal: it is our bug, not the
// user's.
absl::Status Verified(absl::Status status, absl::string_view pass) {
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("after pass ", pass, ": ", status.message()));
}

absl::StatusOr<RankPlan> Build(const EngineSpec& spec, Rank rank, Variant variant, bool prove) {
  const bool trains = variant != Variant::kEvaluation;
  Emitted emitted = Emit(spec, rank, trains ? Extent::kStep : Extent::kForward);
  const std::vector<Pass> passes = PassesFor(spec, variant);
  RankPlan plan{.step = {}, .program = {}, .arenas = {}, .buffers = std::move(emitted.buffers)};
  ASSIGN_OR_RETURN(plan.step,
                   Shortened(emitted.step, RepeatsBy(spec, trains), MostSlots(spec, rank, trains)));
  const MicroBatches apart = Measures(variant) ? MicroBatches::kMixed : MicroBatches::kApart;
  const auto proved = [&](absl::string_view pass) {
    if (!prove) return absl::OkStatus();
    plan.program = Expand(plan.step);
    return Verified(Verify(plan.program, nullptr, apart), pass);
  };
  RETURN_IF_ERROR(proved("emit"));
  for (const Pass& pass : passes) {
    RETURN_IF_ERROR(pass.run(spec, &plan.step));
    RETURN_IF_ERROR(proved(pass.name));
  }
  ASSIGN_OR_RETURN(plan.step, Lengthened(plan.step, spec.micro_batches));
  plan.program = Expand(plan.step);
  ASSIGN_OR_RETURN(plan.arenas, PlanMemory(&plan.program));
  if (prove) RETURN_IF_ERROR(Verified(Verify(plan.program, &plan.arenas, apart), "memory"));
  return plan;
}

}  // namespace

absl::StatusOr<RankPlan> BuildPlan(const EngineSpec& spec, Rank rank, Variant variant) {
  return Build(spec, rank, variant, /*prove=*/true);
}

absl::StatusOr<RankPlan> DraftPlan(const EngineSpec& spec, Rank rank, Variant variant) {
  return Build(spec, rank, variant, /*prove=*/false);
}

absl::StatusOr<ArenaBytes> PlanArenas(const EngineSpec& spec, Rank rank, Variant variant) {
  ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, rank, variant));
  return plan.arenas;
}

absl::StatusOr<IdVector<Rank, RankPlan>> BuildPlans(const EngineSpec& spec, Variant variant) {
  IdVector<Rank, RankPlan> plans;
  std::vector<Program> programs;
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, rank, variant));
    programs.push_back(plan.program);
    plans.push_back(std::move(plan));
  }
  RETURN_IF_ERROR(Verified(VerifyRanks(programs), "all ranks"));
  return plans;
}

}  // namespace stretto
