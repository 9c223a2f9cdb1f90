// SPDX-License-Identifier: Apache-2.0
#pragma once
// The dependencies that any order of a unit's operations must keep.

#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

// For each operation, the earlier operations that it must stay behind: the two touch the same
// memory, and at least one of them writes it. Dependencies that follow from others may be missing.
// Micro-batches are not told apart: expand a unit first (expand_unit.h).
IdVector<OpId, std::vector<OpId>> DependenciesOf(const IdVector<OpId, Op>& ops,
                                                 const IdVector<BufferId, Buffer>& buffers);

}  // namespace stretto
