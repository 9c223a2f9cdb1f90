// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of a step on x86-64 CPUs: oneDNN for matrix products, and loops that the compiler
// vectorises for the rest. It requires what CpuSupported checks, and is the numerical reference of
// all backends.
//
// Rows: every matrix product runs in blocks of one of two sizes that give a row the same bits, so
// the bits of a row depend only on that row, for any number of rows in a call. Bits may differ
// between CPUs: loops and oneDNN use AVX-512 if the CPU has it (and DNNL_MAX_CPU_ISA allows it).
// Memory: each calling thread keeps buffers that grow to the largest shape it has seen, and the
// compiled products of its shapes, until it ends. The object keeps packed f32 forms of the weights
// it has multiplied since WeightsChanged: one for Gemm, one for every range of GemmDgrad.
// Threads: each call uses only the calling thread; the first call of a thread sets its OpenMP team
// to one.

#include <memory>
#include <string>

#include "kernels/ops.h"

namespace stretto {

// The way in which bf16 matrices are multiplied: by the CPU's bf16 instructions (in f32 if it has
// none), or after conversion to f32. kFastest uses the instructions only with AMX; without it,
// Intel's bf16 instructions have half the rate of f32 (measured on Sapphire Rapids).
enum class BF16Products { kFastest, kNative, kInF32 };

struct CpuOpsOptions {
  BF16Products bf16_products = BF16Products::kFastest;  // others: for tests
};

std::unique_ptr<Ops> MakeCpuOps(CpuOpsOptions options = {});

// Whether this CPU has the instructions that this library was compiled for (x86-64-v3). Call it
// before anything else here: without them other calls end in an illegal instruction. When false,
// *why names the missing instructions.
bool CpuSupported(std::string* why);

// Describes for logs what runs the matrix products: "oneDNN 2.6.3 avx512_core_amx, bf16 native" or
// "..., bf16 in f32".
std::string CpuIsa();

}  // namespace stretto
