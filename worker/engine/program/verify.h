// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proves what a program must satisfy before it may run (DESIGN section 4). Pure; its time is close
// to linear in the number of operations.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/same_values.h"

namespace stretto {

using ArenaBytes = PerArena<int64_t>;

// One rank's program:
//  - names of groups and lanes are unique, and the operations of a group are on one lane;
//  - operands, attributes and shapes fit the kind of each operation;
//  - lane order and waits have no cycle;
//  - an operation's output overlaps none of its other operands, unless it works in place;
//  - every read has a writer before it (parameters, optimizer state and inputs are written
//    before the step), and the value has not been overwritten since;
//  - no two lanes touch overlapping memory unordered, unless both read. An operation, collectives
//    included, occupies all its operands from its start to its completion. Once memory is planned,
//    overlap is by address, so unsafe reuse is found too;
//  - planned buffers are inside their arena (when `arenas` is given) and aliases inside their root;
//  - it computes the values of each canonical program that is given (same_values.h). Programs for
//    measurements leave out operations, so they have none.
// Errors: InvalidArgument naming the operations and buffers.
absl::Status Verify(const Program& program, const ArenaBytes* arenas = nullptr,
                    absl::Span<const CanonicalValues> canonical = {});

// Verifies the programs of all ranks of the job together, in rank order, after each has passed
// Verify: the members of each group issue the same collectives, with the same tag, attributes,
// sizes and types, in the same order, and no set of ranks waits for each other forever.
// Errors: InvalidArgument naming ranks and operations.
absl::Status VerifyRanks(absl::Span<const Program> programs);

}  // namespace stretto
