// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a buffer of a planned program lies.

#include "absl/status/status.h"
#include "kernels/tensor_view.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

// The first byte of every arena.
using ArenaBases = PerArena<void*>;

// The buffer as a tensor in the arena of its root. CHECKs that memory is planned.
TensorView ViewOf(const IdVector<BufferId, Buffer>& buffers, BufferId buffer,
                  const ArenaBases& arenas);

// Whether the host writes or reads it around a step: an input or an output.
bool IsHostVisible(const IdVector<BufferId, Buffer>& buffers, BufferId buffer);

// InvalidArgument unless every arena that is borrowed has the bytes that are needed.
absl::Status CheckBorrowed(const PerArena<Arena>& borrowed, const ArenaBytes& needed);

}  // namespace stretto
