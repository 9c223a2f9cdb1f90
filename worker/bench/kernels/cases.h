// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench kernels` times: every operation of a step with every shape that it has there.
// Pure functions of a program.

#include <string>
#include <vector>

#include "worker/engine/cost/work.h"
#include "worker/engine/program/program.h"

namespace stretto::bench {

// A call of the backend: one operation, or what follows an all-reduce and the norm behind it, which
// a backend may make one call of (Ops::BiasResidualLayerNorm).
struct KernelCase {
  std::string operation;               // OperationKey, of a pair both
  std::string place;                   // TagKey of the first: "fwd qkv gemm"
  int count = 0;                       // of them in the step
  Work work;                           // of one; bytes that must move, what a pair hands over once
  IdVector<BufferId, Buffer> buffers;  // memory of their own, all of it
  std::vector<Op> ops;                 // over `buffers`
};

// In the order in which the program first has them. Collectives are none.
std::vector<KernelCase> CasesOf(const Program& program);

// What the others are measured against: a copy of n x n elements (dropout that is off), and the
// product of two such matrices.
KernelCase CopyCase(DType dtype, int64_t n);
KernelCase ProductCase(DType dtype, int64_t n);

}  // namespace stretto::bench
