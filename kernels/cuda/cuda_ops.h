// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of a step on one CUDA device (compute capability 8.0 or newer), enqueued on one
// stream: a call returns before its work is done and never waits for the device, so calls can be
// captured into a graph. All pointers are to device memory.
//
// Numbers: as kernels/ops.h says, with two differences from the CPU. Sums over rows (marked +=) and
// sums of squares are added in a fixed order of their own, the same in every run. Fast exponentials
// differ in the last bits. Attention in bf16 rounds probabilities and the gradients of scores to
// bf16 before it multiplies with them. Bits of our kernels do not depend on the SM limit, nor on
// addresses: operands whose rows are whole multiples of 16 bytes, aligned to 16, are only faster.
//
// Limits: rows of norms and of BiasResidual are at most 64 KiB, heads of Rotary 256 wide. Operands
// of attention in bf16 are aligned to 16 bytes; with heads 64, 80, 96 or 128 wide it takes up to
// 137 KiB of shared memory in a block, which devices of compute capability 8.6, 8.9 and 12 do not
// have.
//
// Threads: one thread at a time per object.

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace stretto {

// Matrix products on a device, y and x as in Ops. In a file of its own so that kernels can be
// tested without the library behind it (cuBLASLt).
class MatrixProducts {
 public:
  virtual ~MatrixProducts() = default;
  virtual void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) = 0;
  virtual void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) = 0;
  virtual void GemmWgrad(TensorView dy, TensorView x, TensorView dw) = 0;
  // Plans products for that many SMs; 0: all.
  virtual void LimitSms(int sms) = 0;
  // What the first product that failed said, naming it; empty while all is well. Later ones are not
  // run.
  virtual const char* error() const { return ""; }
};

// Attention by a library's kernels: bf16 without dropout, tensors as in Ops. False: the call is not
// taken and nothing of it counts; kernels of our own do it. What is taken depends on the shape and
// not on the number of sequences, so that slices of a batch give the bits of the whole.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual bool Attention(const AttentionShape& shape, TensorView qkv, TensorView context,
                         TensorView lse) = 0;
  virtual bool AttentionGrad(const AttentionShape& shape, TensorView dcontext, TensorView qkv,
                             TensorView context, TensorView lse, TensorView dqkv) = 0;
};

struct CudaOpsOptions {
  void* stream = nullptr;  // cudaStream_t
  int sm_count = 0;        // of the device
  // Device memory for partial sums; one per stream. kCudaWorkspaceBytes, aligned to 256.
  void* workspace = nullptr;
  // Borrowed; they enqueue on the same stream. Without products no operation may need them.
  MatrixProducts* products = nullptr;
  FusedAttention* attention = nullptr;  // asked first where it is given
};

inline constexpr size_t kCudaWorkspaceBytes = size_t{64} << 20;

class CudaOps : public Ops {
 public:
  // Kernels launched from here on have no more blocks than fit on that many SMs, so that a
  // collective finds room (the device spreads blocks over all SMs: none stays free); 0: all.
  // FusedAttention knows no limit.
  virtual void LimitSms(int sms) = 0;
  // What the first launch or product that failed said, naming it; empty while all is well. Work
  // after it is undefined.
  virtual const char* error() const = 0;
};

std::unique_ptr<CudaOps> MakeCudaOps(const CudaOpsOptions& options);

}  // namespace stretto
