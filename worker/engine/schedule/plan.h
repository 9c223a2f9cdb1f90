// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds a verified program from a spec: the whole pure core in one call.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/model/emit.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The kind of program to build from a spec.
enum class Variant : uint8_t {
  kSchedule,           // the program of the spec's schedule
  kSerialOracle,       // the same slices, canonical order, one lane: the bitwise oracle, T_serial
  kComputeOnly,        // without collectives, results not meaningful: T_comp when unsliced
  kCommunicationOnly,  // only the collectives, back to back: T_comm
  kWithinStage,        // without what connects stages and replicas: the time of passes
  kTransfersOnly,      // only what stages send each other
  kOpenTails,          // kSchedule without CloseTails
  kEvaluation,         // forward and loss of each micro-batch in the schedule's order, no dropout
};

struct RankPlan {
  StepProgram step;
  Program program;  // expansion of step, memory planned
  ArenaBytes arenas = {};
  StepBuffers buffers;  // ids in step.buffers; map with BufferMap(step)
};

// Builds the plan of one rank and verifies it after every pass. Passes work on a shortened step
// (program/shortened.h); the final program is verified at full length.
//
// `spec` must be valid (worker/engine/spec/spec.h). Errors: Internal, a pass broke the program,
// which is a bug of ours; InvalidArgument, schedule.weave is no weave plan, naming its line.
absl::StatusOr<RankPlan> BuildPlan(const EngineSpec& spec, Rank rank,
                                   Variant variant = Variant::kSchedule);

// Builds the same plan in a fraction of the time and verifies nothing; for estimates. Errors: those
// of BuildPlan, except that broken programs are not found.
absl::StatusOr<RankPlan> DraftPlan(const EngineSpec& spec, Rank rank,
                                   Variant variant = Variant::kSchedule);

// Returns the arenas of DraftPlan.
absl::StatusOr<ArenaBytes> PlanArenas(const EngineSpec& spec, Rank rank,
                                      Variant variant = Variant::kSchedule);

// Builds the plans of all ranks and also verifies them together (collective order, deadlock).
absl::StatusOr<IdVector<Rank, RankPlan>> BuildPlans(const EngineSpec& spec,
                                                    Variant variant = Variant::kSchedule);

}  // namespace stretto
