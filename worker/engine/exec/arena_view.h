#pragma once
// Where a buffer of a planned program lies.

#include <array>

#include "absl/status/status.h"
#include "kernels/tensor_view.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

// The first byte of every arena, indexed by ArenaClass.
using ArenaBases = std::array<void*, 6>;

// The buffer as a tensor in the arena of its root. CHECKs that memory is planned.
TensorView ViewOf(const std::vector<Buffer>& buffers, int buffer, const ArenaBases& arenas);

// Whether the host writes or reads it around a step: an input or an output.
bool IsHostVisible(const std::vector<Buffer>& buffers, int buffer);

// InvalidArgument unless every arena that is borrowed has the bytes that are needed.
absl::Status CheckBorrowed(const std::array<Arena, 6>& borrowed, const ArenaBytes& needed);

}  // namespace stretto
