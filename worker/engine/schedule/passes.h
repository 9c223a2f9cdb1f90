// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes between Emit and execution, one per file. Each is a pure function that clones, merges,
// orders, assigns or removes operations; none adds mathematics. BuildPlan runs them in this order
// and verifies the program after each. The file of a schedule draws its timeline and cites its
// source.

#include "absl/status/status.h"
#include "proto/spec/schedules.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Clones, with phase kRecompute, the forward operations that spec.schedule.recompute selects. The
// clones run before the first backward operation that needs their results.
absl::Status RecomputeActivations(const EngineSpec& spec, StepProgram* step);

// Merges the weight gradient products of all slices of spec.schedule.merge_wgrads micro-batches
// into one product over all their rows, at the place of the last. The unit of a micro-batch then
// holds that many micro-batches, one after the other, its roles. Only the operands of the products
// are kept for all of them. Does nothing when merge_wgrads is 0.
absl::Status MergeWgrads(const EngineSpec& spec, StepProgram* step);

// With several chunks in a stage, cuts the unit of a micro-batch into one for each chunk (units.h),
// with forward and backward of its layers.
absl::Status SplitChunks(const EngineSpec& spec, StepProgram* step);

// Schedules. Each orders the units of a micro-batch; a unit with several roles is ordered role by
// role. The input is in canonical order on one lane. The rows of proto/spec/schedules.inc declare
// them.
#define STRETTO_SCHEDULE(pass, ...) absl::Status pass(const EngineSpec& spec, StepProgram* step);
#include "proto/spec/schedules.inc"
#undef STRETTO_SCHEDULE

struct Pass {
  const char* name;
  absl::Status (*run)(const EngineSpec&, StepProgram*);
  // Whether the step is one again behind the pass. Chunks that follow each other on a stage are so
  // only when the pipeline has put forward of the second before backward of the first.
  bool whole = true;
};

// What orders a step of each schedule, in the order of kSchedules.
inline constexpr decltype(Pass::run) kOrders[] = {
#define STRETTO_SCHEDULE(pass, ...) pass,
#include "proto/spec/schedules.inc"
#undef STRETTO_SCHEDULE
};

// Delays each weight gradient of a layer by spec.schedule.defer_wgrads collectives.
absl::Status DeferWgrads(const EngineSpec& spec, StepProgram* step);

// For stages with several replicas. Computes the weight gradients of each norm right behind the
// gradient of its input. Schedules compute them a layer later, because they hide nothing. But they
// are the last contributions to the bucket of a layer, whose sum over the replicas would start a
// layer later.
absl::Status FinishBuckets(const EngineSpec& spec, StepProgram* step);

// Overlaps the end of each pass with the start of the next, and the last one with the optimizer. A
// pass is a micro-batch or, in a pipeline, forward or backward of it. Where passes of one
// chunk are woven, the last one alone overlaps, with the optimizer. Stages of several chunks stay
// as they are.
absl::Status CloseTails(const EngineSpec& spec, StepProgram* step);

// With several stages, cuts each unit of a micro-batch into "forward", "backward" and, if weight
// gradients wait for the bubble, "weights", and orders them by spec.schedule.pipeline, warm_up and
// wgrad_delay. The units of a chunk have its number behind the name. A unit without backward stays
// whole. For a schedule that weaves, two passes may share a unit: "forward|backward" or, with
// chunks, "forward.0|backward.1". The embedding of the next micro-batch may be with them:
// "forward|backward|embedding".
absl::Status ArrangePipeline(const EngineSpec& spec, StepProgram* step);

// Weaves the two passes of each cell in the order of spec.schedule.weave, and marks the operations
// behind its barriers. Errors: InvalidArgument, if the text is no weave plan.
absl::Status WeaveCells(const EngineSpec& spec, StepProgram* step);

// For weave plans with barriers, after lanes are assigned: behind a barrier, each lane waits for
// all that is in front of it in the unit. Transfers between stages keep their own waits: two stages
// that wait for each other's next transfer would wait forever.
absl::Status HoldBarriers(const EngineSpec& spec, StepProgram* step);

// For orders that block, after lanes are assigned: transfers start when the pass before them is
// computed, and the next pass starts when they are done. The transfers between two passes run
// together, so that two stages may send to each other.
absl::Status BlockTransfers(const EngineSpec& spec, StepProgram* step);

// For measurements only. RemoveCollectives leaves the computation, whose time is T_comp;
// KeepCollectives leaves the collectives, whose time is T_comm. StayWithinStage leaves computation
// and tensor-parallel collectives, and KeepTransfers the transfers between stages.
absl::Status RemoveCollectives(const EngineSpec& spec, StepProgram* step);
absl::Status KeepCollectives(const EngineSpec& spec, StepProgram* step);
absl::Status StayWithinStage(const EngineSpec& spec, StepProgram* step);
absl::Status KeepTransfers(const EngineSpec& spec, StepProgram* step);

// Assigns the collectives of each group to a lane of its own and everything else to lane compute.
// Then assigns the fewest waits that order every conflicting pair of accesses, within units and
// (carried) between instances.
absl::Status AssignLanesAndWaits(const EngineSpec& spec, StepProgram* step);
// The second half of it, for a step whose lanes are given.
void AssignWaits(StepProgram* step);

// For synchronous schedules, after lanes are assigned: wherever the lane changes, within a unit or
// from one instance to the next, the operation waits for the one before it. A collective therefore
// starts only after all earlier computation is done, and no computation runs under it. Transfers
// between stages keep their own waits: two stages that wait for each other's next transfer would
// wait forever.
absl::Status SerialiseLanes(const EngineSpec& spec, StepProgram* step);

}  // namespace stretto
