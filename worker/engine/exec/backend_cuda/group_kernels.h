#pragma once
// Collectives of ranks that share a device: one kernel that sees the memory of all of them.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor_view.h"

namespace stretto::cuda {

inline constexpr int kMaxLocalRanks = 16;

enum class GroupCall : uint8_t { kAllReduceSum, kAllReduceMax, kReduceScatter, kAllGather };

// Operands of every rank, in rank order.
struct GroupTensors {
  int ranks = 0;
  TensorView in[kMaxLocalRanks], out[kMaxLocalRanks];
};

// Enqueues the collective (worker/comm/communicator.h). Reduces in rank order in f32 and rounds
// once. `narrow`: f32 tensors travel as bf16, so what each rank brings and what comes out is
// rounded. The bits are those of comm/local. Returns what the launch returned.
cudaError_t LaunchGroupCall(GroupCall call, bool narrow, const GroupTensors& tensors,
                            cudaStream_t stream);

// to[i] = from[i], from f32 to bf16 or back.
cudaError_t LaunchConvert(TensorView from, TensorView to, cudaStream_t stream);

}  // namespace stretto::cuda
