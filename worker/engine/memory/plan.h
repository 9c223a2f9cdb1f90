// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places every buffer in one arena per class. Activations share addresses when happens-before
// proves, micro-batch by micro-batch, that one is no longer in use before the other starts
// (lives.h). All other buffers have addresses of their own.

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

inline constexpr int64_t kArenaAlignment = 64;  // bytes: a cache line, and AVX-512's width

// Sets Buffer::offset of every root buffer of a flat program with waits, and returns the size of
// each arena. Activations that no operation touches share offset 0; other buffers always have a
// place of their own. Errors: InvalidArgument, the program has a cycle.
absl::StatusOr<ArenaBytes> PlanMemory(Program* program);

// Returns a lower bound for the activation arena of any placement: the largest total size of
// activations in use at once. For tests.
absl::StatusOr<int64_t> PeakLiveActivations(const Program& program);

}  // namespace stretto
