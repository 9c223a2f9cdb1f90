// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a library's attention with our own on the same random numbers.

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/tunings.h"
#include "kernels/ops.h"

namespace stretto::cuda {

// The tensors of a call as in Ops; forward has no gradients and no scratch.
struct AttentionTensors {
  TensorView qkv = {}, context = {}, lse = {}, dcontext = {}, dqkv = {}, scratch = {};

  // Returns sequences [first, first + count), with the same scratch.
  AttentionTensors Sequences(const AttentionShape& shape, int64_t first, int64_t count) const;
};

// Enqueues the library's computation.
using LibraryAttention = std::function<absl::Status(const AttentionTensors& tensors)>;

struct Trial {
  AttentionShape shape;
  bool backward = false;
  bool repeatable = true;  // whether the bits must be the same in every run
  int64_t sequences = 2;
  void* stream = nullptr;  // cudaStream_t, used by both
};

// Returns the times of both if the library's results agree with ours (rows within 2^-5 of their
// length, because both round probabilities to bf16; logs within 0.001), also when they are computed
// again and sequence by sequence. If they must be repeatable, these have the same bits. Waits for
// the stream. Errors: ResourceExhausted (no memory for
// the trial), Internal (naming the difference), those of the library.
absl::StatusOr<AttentionTimes> TryAttention(const Trial& trial, Ops& own,
                                            const LibraryAttention& library);

}  // namespace stretto::cuda
