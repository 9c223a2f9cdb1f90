// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of a step on x86-64 CPUs: oneDNN for matrix products, loops that the compiler
// vectorises for the rest. Needs what CpuSupported checks; the numerical reference of all backends.
//
// Rows: every matrix product runs in blocks of one of two sizes that give a row the same bits, so
// these depend on that row alone, for any number of rows in a call. Bits may differ between CPUs:
// loops and oneDNN use AVX-512 where the CPU has it (and DNNL_MAX_CPU_ISA allows it).
// Memory: each calling thread keeps buffers that grow to the largest shape it has seen, and the
// compiled products of its shapes, until it ends. The object keeps packed f32 forms of the weights
// it has multiplied since WeightsChanged: one for Gemm, one for every range of GemmDgrad.
// Threads: each call uses the calling thread alone; the first call of a thread sets its OpenMP team
// to one.

#include <memory>
#include <string>

#include "kernels/ops.h"

namespace stretto {

// How bf16 matrices are multiplied: by the CPU's bf16 instructions (in f32 where it has none), or
// converted to f32. Fastest: natively only with AMX; without it Intel's bf16 instructions have half
// the rate of f32 (measured on Sapphire Rapids).
enum class BF16Products { kFastest, kNative, kInF32 };

struct CpuOpsOptions {
  BF16Products bf16_products = BF16Products::kFastest;  // others: for tests
};

std::unique_ptr<Ops> MakeCpuOps(CpuOpsOptions options = {});

// Whether this CPU has the instructions that this library was compiled for (x86-64-v3). Call it
// before anything else here: without them other calls end in an illegal instruction. When false,
// *why names what is missing.
bool CpuSupported(std::string* why);

// What runs the matrix products, for logs: "oneDNN 2.6.3 avx512_core_amx, bf16 native" or "...,
// bf16 in f32".
std::string CpuIsa();

}  // namespace stretto
