// SPDX-License-Identifier: Apache-2.0
#pragma once
// A library's attention beside our own, on the same random numbers.

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/tunings.h"
#include "kernels/ops.h"

namespace stretto::cuda {

// Tensors of a call as in Ops; forward has no gradients.
struct AttentionTensors {
  TensorView qkv = {}, context = {}, lse = {}, dcontext = {}, dqkv = {};

  // Sequences [first, first + count).
  AttentionTensors Sequences(const AttentionShape& shape, int64_t first, int64_t count) const;
};

// Enqueues what it computes.
using LibraryAttention = std::function<absl::Status(const AttentionTensors& tensors)>;

struct Trial {
  AttentionShape shape;
  bool backward = false;
  int64_t sequences = 2;
  void* stream = nullptr;  // cudaStream_t, of both
};

// Times of both, when the library's results agree with ours (rows within 2^-5 of their length, as
// both round probabilities to bf16; logs within 0.001), repeat bit by bit, and are the same
// sequence by sequence. Waits for the stream. Errors: ResourceExhausted (no memory to try in),
// Internal (naming what differs), the library's.
absl::StatusOr<AttentionTimes> TryAttention(const Trial& trial, Ops& own,
                                            const LibraryAttention& library);

}  // namespace stretto::cuda
