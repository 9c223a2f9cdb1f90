// SPDX-License-Identifier: Apache-2.0

// Builds the program of a rank: emits the mathematics, runs the passes of the schedule in a fixed
// order, and plans memory.
//
// The table kSchedules defines which parameters a schedule takes and which passes follow it;
// PassesFor turns a spec, a rank and a variant into the list of passes. With `prove`, the program
// is expanded and verified after every pass, so that an error names the pass that caused it. Passes
// run on a shortened step, which has just enough micro-batches to show every kind of neighbour; the
// step is lengthened to its full number before memory is planned.

#include "worker/engine/schedule/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
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

bool HasNeighbours(const std::vector<Chunk>& chunks) {
  return std::adjacent_find(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
           return a.number + 1 == b.number;
         }) != chunks.end();
}

std::vector<Pass> PassesFor(const EngineSpec& spec, Rank rank, Variant variant) {
  const size_t index = IndexOf(spec.schedule.name);
  const ScheduleRules& schedule = kSchedules[index];
  const bool trains = variant != Variant::kEvaluation;
  const bool pipeline = spec.pp_size > 1;
  std::vector<Pass> passes;
  // These passes run for the oracle too: they change the operations, and the oracle must run the
  // same ones. All later passes only arrange them.
  if (trains && spec.schedule.recompute != Recompute::kNone)
    passes.push_back({"recompute", RecomputeActivations});
  if (trains && spec.schedule.merge_wgrads > 0) passes.push_back({"merge_wgrads", MergeWgrads});
  if (variant == Variant::kSerialOracle) return passes;
  const int stage = PlaceOf(spec, rank).stage;
  const bool whole = !trains || !HasNeighbours(ChunksOf(spec, stage));
  if (spec.chunks_per_stage > 1) passes.push_back({"split_chunks", SplitChunks, whole});
  passes.push_back({schedule.name, kOrders[index], whole});
  if (trains && spec.schedule.defer_wgrads > 0) passes.push_back({"defer_wgrads", DeferWgrads});
  const bool sums = ReplicasOf(spec, stage) > 1;
  if (trains && sums) passes.push_back({"finish_buckets", FinishBuckets, whole});
  const bool weaves = schedule.weaves && trains;
  if (pipeline || weaves) passes.push_back({"pipeline", ArrangePipeline});
  if (weaves) passes.push_back({"weave_cells", WeaveCells});
  const bool blocks = pipeline && FindPipeline(spec.schedule.pipeline)->blocking;
  const bool closes =
      trains && (schedule.defers || schedule.weaves) && !blocks && spec.chunks_per_stage == 1;
  if (closes && variant != Variant::kOpenTails) passes.push_back({"close_tails", CloseTails});
  if (variant == Variant::kComputeOnly) passes.push_back({"remove_collectives", RemoveCollectives});
  if (variant == Variant::kCommunicationOnly)
    passes.push_back({"keep_collectives", KeepCollectives});
  if (variant == Variant::kWithinStage) passes.push_back({"stay_within_stage", StayWithinStage});
  if (variant == Variant::kTransfersOnly) passes.push_back({"keep_transfers", KeepTransfers});
  passes.push_back({"lanes_and_waits", AssignLanesAndWaits});
  if (weaves) passes.push_back({"hold_barriers", HoldBarriers});
  if (schedule.synchronous) passes.push_back({"serialise_lanes", SerialiseLanes});
  const bool computes =
      variant != Variant::kCommunicationOnly && variant != Variant::kTransfersOnly;
  if (blocks && trains && computes) passes.push_back({"block_transfers", BlockTransfers});
  return passes;
}

// Returns by how many micro-batches the finished step repeats.
int RepeatsBy(const EngineSpec& spec, bool trains) {
  const bool folds = FindPipeline(spec.schedule.pipeline)->folds;
  if (spec.chunks_per_stage > 1 && !folds) return spec.pp_size;
  return trains ? std::max(1, spec.schedule.merge_wgrads) : 1;
}

// Returns a bound for the copies of a buffer that passes will ask for.
int MostSlots(const EngineSpec& spec, Rank rank, bool trains) {
  const bool weaves = FindSchedule(spec.schedule.name)->weaves;
  if (!trains || (spec.pp_size == 1 && !weaves)) return 2 * RepeatsBy(spec, trains);
  const int in_flight =
      OrderFor(spec.schedule, StageOfRank(spec, rank, spec.micro_batches)).InFlight();
  if (spec.pp_size == 1) return in_flight * RepeatsBy(spec, trains);
  // One more where a transfer leaves or arrives, and one where passes overlap.
  return in_flight + 2;
}

// Reports a program that fails verification as Internal: it is our bug, not the user's.
absl::Status BrokenBy(absl::string_view pass, const absl::Status& status) {
  return absl::InternalError(absl::StrCat("after pass ", pass, ": ", status.message()));
}

// Verifies programs and, unless they measure, that they compute the values of a canonical step.
class Proof {
 public:
  explicit Proof(Variant variant) : computes_(!Measures(variant)) {}

  // The canonical step of the programs that are to come, with as many micro-batches.
  absl::Status CompareWith(const StepProgram& canonical, Sums sums = Sums::kInOrder) {
    canonical_.clear();
    if (!computes_) return absl::OkStatus();
    ASSIGN_OR_RETURN(CanonicalValues values, CanonicalValues::Of(canonical, sums));
    canonical_.push_back(std::move(values));
    return absl::OkStatus();
  }
  absl::Status After(absl::string_view pass, const Program& program,
                     const ArenaBytes* arenas = nullptr) const {
    const absl::Status status = Verify(program, arenas, canonical_);
    return status.ok() ? status : BrokenBy(pass, status);
  }

 private:
  const bool computes_;
  std::vector<CanonicalValues> canonical_;  // at most one
};

// Runs the passes and proves each. The canonical step is the emitted one until MergeWgrads has
// merged its products too: these round differently, and the oracle runs them.
absl::Status ArrangeProved(const EngineSpec& spec, const std::vector<Pass>& passes, Proof* proof,
                           StepProgram* step) {
  StepProgram canonical = *step;
  RETURN_IF_ERROR(proof->After("emit", Expand(*step)));
  RETURN_IF_ERROR(proof->CompareWith(canonical));
  for (const Pass& pass : passes) {
    RETURN_IF_ERROR(pass.run(spec, step));
    const bool merges = pass.run == MergeWgrads;
    if (merges) RETURN_IF_ERROR(proof->CompareWith(canonical, Sums::kInAnyOrder));
    if (pass.whole) RETURN_IF_ERROR(proof->After(pass.name, Expand(*step)));
    if (merges) RETURN_IF_ERROR(MergeWgrads(spec, &canonical));
    if (merges) RETURN_IF_ERROR(proof->CompareWith(canonical));
  }
  return absl::OkStatus();
}

absl::StatusOr<RankPlan> Build(const EngineSpec& spec, Rank rank, Variant variant, bool prove) {
  const bool trains = variant != Variant::kEvaluation;
  Emitted emitted = Emit(spec, rank, trains ? Extent::kStep : Extent::kForward);
  const std::vector<Pass> passes = PassesFor(spec, rank, variant);
  RankPlan plan{.step = {}, .program = {}, .arenas = {}, .buffers = std::move(emitted.buffers)};
  ASSIGN_OR_RETURN(plan.step,
                   Shortened(emitted.step, RepeatsBy(spec, trains), MostSlots(spec, rank, trains)));
  Proof proof(variant);
  if (prove) {
    RETURN_IF_ERROR(ArrangeProved(spec, passes, &proof, &plan.step));
  } else {
    for (const Pass& pass : passes) RETURN_IF_ERROR(pass.run(spec, &plan.step));
  }
  ASSIGN_OR_RETURN(plan.step, Lengthened(plan.step, spec.micro_batches));
  plan.program = Expand(plan.step);
  ASSIGN_OR_RETURN(plan.arenas, PlanMemory(&plan.program));
  if (!prove) return plan;
  if (trains) RETURN_IF_ERROR(MergeWgrads(spec, &emitted.step));
  RETURN_IF_ERROR(proof.CompareWith(emitted.step));
  RETURN_IF_ERROR(proof.After("memory", plan.program, &plan.arenas));
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
  const absl::Status together = VerifyRanks(programs);
  if (!together.ok()) return BrokenBy("all ranks", together);
  return plans;
}

}  // namespace stretto
