// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cases of `stretto-bench kernels`: every operation of a step with every shape that it has
// there. Pure functions of a program.

#include <string>
#include <vector>

#include "worker/engine/cost/work.h"
#include "worker/engine/program/program.h"

namespace stretto::bench {

// A call of the backend: one operation, or a pair that a backend may run as one call (ArePair of
// worker/engine/exec/bind.h).
struct KernelCase {
  std::string operation;               // OperationKey; of a pair, both
  std::string place;                   // TagKey of the first: "fwd qkv gemm"
  int count = 0;                       // number of such calls in the step
  Work work;                           // of one call; a pair moves what both use only once
  IdVector<BufferId, Buffer> buffers;  // memory of its own for every buffer
  std::vector<Op> ops;                 // over `buffers`
  // Calls of a step that multiply by the same weights, which are these buffers. A backend may
  // prepare weights once for all of them.
  int uses = 1;
  std::vector<BufferId> weights = {};
};

// Whether it is of the optimizer, which no predicted step contains: it waits for memory all the
// time.
bool IsOfOptimizer(const KernelCase& timed);

// Returns the cases in the order of their first occurrence in the program, without collectives.
std::vector<KernelCase> CasesOf(const Program& program);

// Returns the operations instead: each with its shapes is a case of its own, and `uses` is as in
// the program.
std::vector<KernelCase> OperationsOf(const Program& program);

// The cases that set the limits: a copy of n x n elements (dropout that is off), and the product of
// two such matrices.
KernelCase CopyCase(DType dtype, int64_t n);
KernelCase ProductCase(DType dtype, int64_t n);

}  // namespace stretto::bench
