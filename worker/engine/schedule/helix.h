// SPDX-License-Identifier: Apache-2.0
#pragma once
// The default weave plan of schedule helix.

#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {

// Returns the plan for a cell of forward and backward, which `weaver` holds, that is used when none
// was given. It needs no costs and names words that the cell has only. Layers are those of the
// chunks; the numbers of the chunks are 0, and the caller knows them.
WeavePlan DefaultWeavePlan(Weaver* weaver, bool sequence_parallel);

// The roles of a cell: forward, backward and, if it has one, the embedding of the next micro-batch,
// whose word is one of forward.
inline constexpr int kNextRole = 2;
constexpr Strand StrandOf(int role) { return role == 1 ? Strand::kBackward : Strand::kForward; }

// Plays the lines of a plan for such a cell. The weaver still has to finish.
void PlayPlan(const WeavePlan& plan, Weaver* weaver);

// Adds what no plan may break to the dependencies of such a cell: the pace, and that layers are
// computed again in turn. Leaves the weaver at backward.
void KeepMemory(int pace, Weaver* weaver);

}  // namespace stretto
