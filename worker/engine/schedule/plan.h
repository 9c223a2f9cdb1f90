// SPDX-License-Identifier: Apache-2.0
#pragma once
// From spec to a verified program: the whole pure core in one call.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/model/emit.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// What to build from a spec besides the schedule itself.
enum class Variant : uint8_t {
  kSchedule,
  kSerialOracle,  // the same slices, canonical order, one lane: the bitwise oracle, and T_serial
  kComputeOnly,   // without collectives: T_comp when unsliced; results are not meaningful
  kCommunicationOnly,  // collectives alone, back to back: T_comm
  kOpenTails,          // the schedule with nothing moved across micro-batches or into the optimizer
  kEvaluation,         // forward and loss of one micro-batch, in the schedule's order, no dropout
};

struct RankPlan {
  StepProgram step;
  Program program;  // expansion of step, memory planned
  ArenaBytes arenas = {};
  StepBuffers buffers;  // ids in step.buffers; map with BufferMap(step)
};

// The plan of one rank, verified after every pass: passes work on as few micro-batches as show how
// they follow each other, the result is verified as long as it is.
// Of a valid spec (worker/engine/spec/spec.h). Internal: a pass broke the program (our bug).
absl::StatusOr<RankPlan> BuildPlan(const EngineSpec& spec, int tp_rank,
                                   Variant variant = Variant::kSchedule);

// That plan in a part of the time, for estimates: nothing is proved. Errors: those of BuildPlan,
// but for broken programs.
absl::StatusOr<RankPlan> DraftPlan(const EngineSpec& spec, int tp_rank,
                                   Variant variant = Variant::kSchedule);

// The arenas of DraftPlan.
absl::StatusOr<ArenaBytes> PlanArenas(const EngineSpec& spec, int tp_rank,
                                      Variant variant = Variant::kSchedule);

// The plans of all ranks, also verified together (collective order, deadlock).
absl::StatusOr<std::vector<RankPlan>> BuildPlans(const EngineSpec& spec,
                                                 Variant variant = Variant::kSchedule);

}  // namespace stretto
