// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a plan that moves a tensor into the step programs that move it: transfers, all-gathers and,
// for boxes that are not contiguous, copies.
//
// Each list of ranks that communicate is a group of its own, so a chain has its own connections,
// but all groups of a rank are on one lane: a rank works through its steps one by one, in the order
// of the plan, which is what the plan's makespan counts. All ranks follow one order, so none waits
// for a step that waits for it. Copies are on lane compute, under the transfers of other steps.
// Pure and deterministic.

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/reshard/reshard.h"

namespace stretto {

// The axis of all groups of a resharding: a group is "reshard.0-4-5", after its ranks.
inline constexpr char kReshardAxis[] = "reshard";

struct ReshardProgram {
  StepProgram step;
  Program program;  // expansion of step, memory planned
  ArenaBytes arenas = {};
  // The tile of the rank before, an input, and after, an output, in step.buffers and in
  // program.buffers; -1 where it has none.
  BufferId in, out;
};

// Builds the programs of ranks 0 to world_size - 1, verified one by one and together. The tensor
// has elements of `dtype` and at most four dimensions. Errors: InvalidArgument, `plan` does not
// move `from` to `to` (CheckResharding), or a rank of it is not below `world_size`.
absl::StatusOr<IdVector<Rank, ReshardProgram>> BuildReshardPrograms(const Resharding& plan,
                                                                    const Tiling& from,
                                                                    const Tiling& to, DType dtype,
                                                                    int world_size);

}  // namespace stretto
