// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank of a job will hold, before anything is allocated.

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// The program that T_comp and T_comm are of: megatron_sync of the same model, as plain as it gets.
EngineSpec Unsliced(EngineSpec spec);

// What a job runs besides training steps.
struct Extras {
  bool profiled = false;
  bool evaluated = false;
};

// The arenas that a rank holds at its fullest: those of its training step, with room for an
// evaluation in between, or, where the job is profiled, of a program that the profile runs before.
// A floor: what libraries keep beside them comes on top. Errors: those of PlanArenas.
absl::StatusOr<ArenaBytes> FullestArenas(const EngineSpec& spec, int rank, Extras extras);

// Makes the activations of a step large enough for those of an evaluation, which runs in them, and
// returns what that has of its own: inputs and outputs. Errors: those of PlanArenas.
absl::StatusOr<ArenaBytes> MakeRoomForEvaluation(const EngineSpec& spec, int rank,
                                                 ArenaBytes* step);

int64_t TotalBytes(const ArenaBytes& arenas);

}  // namespace stretto::trainer
