// SPDX-License-Identifier: Apache-2.0
#pragma once
// The class that MakeCpuOps returns; one family of operations per source file. These files are
// compiled once for the baseline and once for AVX-512 (CMakeLists.txt), each in its own namespace.

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/packed_weights.h"

#ifndef STRETTO_CPU_OPS
#define STRETTO_CPU_OPS baseline
#endif

namespace stretto::cpu::STRETTO_CPU_OPS {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(bool bf16_matmul) : bf16_matmul_(bf16_matmul) {}

  void WeightsChanged() override;

#define STRETTO_OP(name, parameters, arguments) void name parameters override;
#include "kernels/ops.inc"
#undef STRETTO_OP

 private:
  DType ProductType(DType dtype) const { return bf16_matmul_ ? dtype : DType::kF32; }

  // Whether bf16 products use bf16 instructions; otherwise operands are converted to f32.
  const bool bf16_matmul_;
  PackedWeights packed_;
};

}  // namespace stretto::cpu::STRETTO_CPU_OPS
