// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of a step on one CUDA device (compute capability 8.0 or newer), enqueued on one
// stream: a call returns before its work is done and never waits for the device, so calls can be
// captured into a graph. All pointers are to device memory.
//
// Numerics: those of kernels/ops.h, with these differences from the CPU. Sums over rows (marked +=)
// and sums of squares are added in a fixed order of their own, the same in every run. Fast
// exponentials differ in the last bits. Attention in bf16 rounds probabilities and the gradients of
// scores to bf16 before it multiplies with them. The bits of our kernels depend neither on the
// number of SMs and the limit on them nor on addresses: operands whose rows are multiples of 16
// bytes, aligned to 16, are only faster.
//
// Limits: rows of norms and of BiasResidual are at most 64 KiB, heads of Rotary at most 256 wide.
// Operands of attention in bf16 are aligned to 16 bytes. With heads 64, 80, 96 or 128 wide, it uses
// up to 137 KiB of shared memory in a block, which devices of compute capability 8.6, 8.9 and 12 do
// not have.
//
// Not thread-safe.

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace stretto {

// Matrix products on a device, with y and x as in Ops. Declared here so that kernels can be tested
// without the library that implements them (cuBLASLt).
class MatrixProducts {
 public:
  virtual ~MatrixProducts() = default;
  virtual void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) = 0;
  virtual void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) = 0;
  virtual void GemmWgrad(TensorView dy, TensorView x, TensorView dw) = 0;
  // Plans later products for `sms` SMs; 0: all.
  virtual void LimitSms(int sms) = 0;
  // Returns the message of the first product that failed, naming it; empty if none failed. Later
  // products are not run.
  virtual const char* error() const { return ""; }
};

// Attention by a library's kernels: bf16 without dropout and documents, tensors as in Ops. A call
// that returns false has had no effect, and our own kernels must do the work. Acceptance depends on
// the shape but not on the number of sequences, so that slices of a batch are bitwise equal to the
// whole. Bits of gradients may vary from run to run, where an implementation says so; all other
// bits are those of every run.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual bool Attention(const AttentionShape& shape, TensorView qkv, TensorView context,
                         TensorView lse) = 0;
  virtual bool AttentionGrad(const AttentionShape& shape, TensorView dcontext, TensorView qkv,
                             TensorView context, TensorView lse, TensorView dqkv,
                             TensorView scratch) = 0;
};

struct CudaOpsOptions {
  void* stream = nullptr;  // cudaStream_t
  int sm_count = 0;        // of the device
  // Device memory for partial sums; one per stream. kCudaWorkspaceBytes, aligned to 256.
  void* workspace = nullptr;
  // Borrowed; they enqueue on the same stream. Without products no operation may need them.
  MatrixProducts* products = nullptr;
  // Asked first if it is given; for gradients, if their scratch has room for it.
  FusedAttention* attention = nullptr;
};

inline constexpr size_t kCudaWorkspaceBytes = size_t{64} << 20;

class CudaOps : public Ops {
 public:
  // Limits kernels launched from here on to `sms` blocks, one per SM, so that other SMs stay free
  // for a collective (the device spreads blocks over all SMs, so with several per SM none would
  // be); 0: no limit. FusedAttention has no limit.
  virtual void LimitSms(int sms) = 0;
  // Returns the message of the first launch or product that failed, naming it; empty if none
  // failed. The results of later work are undefined.
  virtual const char* error() const = 0;
};

std::unique_ptr<CudaOps> MakeCudaOps(const CudaOpsOptions& options);

}  // namespace stretto
