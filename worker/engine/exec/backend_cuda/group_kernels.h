// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives of ranks that share a device: one kernel that accesses the memory of all of them.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor_view.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto::cuda {

inline constexpr int kMaxLocalRanks = 16;

// The operands of every rank, in the order of the group. A broadcast is from the first to the
// others.
struct GroupTensors {
  int ranks = 0;
  TensorView in[kMaxLocalRanks], out[kMaxLocalRanks];
};

// Enqueues a collective of a kind that devices have. It reduces in rank order in f32 and rounds
// once. With `narrow`, f32 tensors travel as bf16: each rank's input and the result are rounded.
// The result is bitwise equal to that of comm/local. Returns the result of the launch.
cudaError_t LaunchGroupCall(CollectiveKind kind, ReduceOp op, bool narrow,
                            const GroupTensors& tensors, cudaStream_t stream);

// Enqueues to[i] = from[i], from f32 to bf16 or back.
cudaError_t LaunchConvert(TensorView from, TensorView to, cudaStream_t stream);

}  // namespace stretto::cuda
