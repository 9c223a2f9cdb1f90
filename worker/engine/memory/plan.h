// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places every buffer in one arena per class. Activations share addresses where happens-before
// proves, micro-batch by micro-batch, that one is done with before the other begins (lives.h);
// everything else has its own.

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

inline constexpr int64_t kArenaAlignment = 64;  // bytes: a cache line, and AVX-512's width

// Sets Buffer::offset of every root buffer of a flat program with waits, and returns the size of
// each arena. Buffers that no operation touches still get a place unless they are activations of
// size zero. Errors: the program has a cycle.
absl::StatusOr<ArenaBytes> PlanMemory(Program* program);

// Bytes of activations alive together at least, whatever the placement: a floor for the plan's
// arena, for tests.
absl::StatusOr<int64_t> PeakLiveActivations(const Program& program);

}  // namespace stretto
