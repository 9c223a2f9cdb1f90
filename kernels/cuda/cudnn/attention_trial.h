// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a library's attention with our own on the same random numbers.

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/tunings.h"
#include "kernels/ops.h"

namespace stretto::cuda {

// The tensors of a call as in Ops; forward has no gradients.
struct AttentionTensors {
  TensorView qkv = {}, context = {}, lse = {}, dcontext = {}, dqkv = {};

  // Returns sequences [first, first + count).
  AttentionTensors Sequences(const AttentionShape& shape, int64_t first, int64_t count) const;
};

// Enqueues the library's computation.
using LibraryAttention = std::function<absl::Status(const AttentionTensors& tensors)>;

struct Trial {
  AttentionShape shape;
  bool backward = false;
  int64_t sequences = 2;
  void* stream = nullptr;  // cudaStream_t, used by both
};

// Returns the times of both if the library's results agree with ours (rows within 2^-5 of their
// length, because both round probabilities to bf16; logs within 0.001), are bitwise repeatable, and
// do not depend on other sequences. Waits for the stream. Errors: ResourceExhausted (no memory for
// the trial), Internal (naming the difference), those of the library.
absl::StatusOr<AttentionTimes> TryAttention(const Trial& trial, Ops& own,
                                            const LibraryAttention& library);

}  // namespace stretto::cuda
