// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a rank of a job, computed before anything is allocated.

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Returns the program whose times are T_comp and T_comm: megatron_sync of the same model, unsliced.
EngineSpec Unsliced(EngineSpec spec);

// Returns the spec of the program that measures a number of batches of held-out data
// (Variant::kEvaluation). Its micro_batches are the batches of a replica that it runs at once: a
// pipeline overlaps them, and with ZeRO they share the gathering of the weights.
EngineSpec EvaluationOf(EngineSpec spec, int64_t batches);

// The programs that a job runs besides training steps.
struct Extras {
  bool profiled = false;
  int64_t evaluated_batches = 0;
};

// Returns the arenas of a rank at the time when it uses most memory: those of its training step
// with room for evaluations in between, or, where the job is profiled, those of a program that the
// profile runs before. This is a lower bound: memory of libraries is not included. Errors: those of
// PlanArenas.
absl::StatusOr<ArenaBytes> FullestArenas(const EngineSpec& spec, Rank rank, Extras extras);

// Enlarges the activations of a step to those of an evaluation, which uses the same memory, and
// returns the arenas that the evaluation has of its own: inputs and outputs. Errors: those of
// PlanArenas.
absl::StatusOr<ArenaBytes> MakeRoomForEvaluation(const EngineSpec& spec, int64_t batches, Rank rank,
                                                 ArenaBytes* step);

int64_t TotalBytes(const ArenaBytes& arenas);

}  // namespace stretto::trainer
