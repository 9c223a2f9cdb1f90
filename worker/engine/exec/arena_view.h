// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of the buffers of a planned program.

#include "absl/status/status.h"
#include "kernels/tensor_view.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

// The first byte of every arena.
using ArenaBases = PerArena<void*>;

// Returns the buffer as a tensor in the arena of its root. CHECKs that memory is planned.
TensorView ViewOf(const IdVector<BufferId, Buffer>& buffers, BufferId buffer,
                  const ArenaBases& arenas);

// Whether the host writes or reads the buffer around a step: it is an input or an output.
bool IsHostVisible(const IdVector<BufferId, Buffer>& buffers, BufferId buffer);

// Returns InvalidArgument unless every borrowed arena has at least the bytes that are needed.
absl::Status CheckBorrowed(const PerArena<Arena>& borrowed, const ArenaBytes& needed);

}  // namespace stretto
