// SPDX-License-Identifier: Apache-2.0
#pragma once
// A warp's matrix instructions on tiles of bf16 and the loads that feed them, with the layouts of
// the PTX ISA (mma.m16n8k16, ldmatrix, cp.async; compute capability 8.0). Every use of inline PTX
// has a plain counterpart beside it.
//
// Lane l has row g = l / 4 and columns 2t, 2t + 1, where t = l % 4. All lanes of a warp call these
// functions together unless stated otherwise.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cuda/device.h"
#include "proto/base/check.h"

#if defined(__CUDACC__)
#define STRETTO_UNROLL _Pragma("unroll")
#define STRETTO_ROLLED _Pragma("unroll 1")
#else
#define STRETTO_UNROLL
#define STRETTO_ROLLED
#endif

namespace stretto::cuda {

// Fragments of the product of a 16 x 16 and a 16 x 8 matrix. A word holds two bf16 that are
// neighbours along the dimension of summation, the first in its low half.
struct LeftFragment {
  uint32_t at[4];  // (row g, columns 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)
};
struct RightFragment {
  uint32_t at[2];  // (rows 2t.., column g), (rows 2t + 8.., column g)
};
using SumFragment = float[4];  // (row g, columns 2t, 2t + 1), (g + 8, 2t, 2t + 1)

// Returns the thread's number in its one-dimensional block, read anew by every call: values derived
// from it are computed where they are used and take no registers from the tiles in the meantime.
__device__ __forceinline__ int ThreadNumber() {
#if defined(__CUDACC__)
  int number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
#else
  return static_cast<int>(threadIdx.x);
#endif
}

// The place of the lane's first element in a fragment of sums.
struct LanePlace {
  int row, column;
};
__device__ __forceinline__ LanePlace PlaceOfLane() {
  const int lane = ThreadNumber() % kWarpSize;
  return {lane / 4, lane % 4 * 2};
}

__device__ __forceinline__ uint32_t RoundPair(float low, float high) {
#if defined(__CUDACC__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return ToBF16(low).bits | static_cast<uint32_t>(ToBF16(high).bits) << 16;
#endif
}

__device__ __forceinline__ float Exp2(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

// sum += left * right
__device__ __forceinline__ void MultiplyAdd(const LeftFragment& left, const RightFragment& right,
                                            SumFragment& sum) {
#if defined(__CUDACC__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right.at[0]),
        "r"(right.at[1]));
#else
  struct Lane {
    LeftFragment left;
    RightFragment right;
  };
  const auto place = [](int lane) { return static_cast<Lane*>(cuda_emulator::WarpPlace(lane)); };
  const auto half = [](uint32_t pair, int k) {
    return ToFloat(BF16{static_cast<uint16_t>(pair >> (k % 2 * 16))});
  };
  *place(cuda_emulator::Lane()) = {left, right};
  cuda_emulator::WarpBarrier();
  const LanePlace own = PlaceOfLane();
  for (int i = 0; i < 4; ++i) {
    const int row = own.row, column = own.column + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int word = k % 8 / 2, upper = k / 8;
      sum[i] += half(place(row * 4 + word)->left.at[upper * 2 + i / 2], k) *
                half(place(column * 4 + word)->right.at[upper], k);
    }
  }
  cuda_emulator::WarpBarrier();
#endif
}

// Loads four 8 x 8 matrices from shared memory. Lane l gives the address of row l % 8 of matrix
// l / 8, 16-byte aligned. at[i] receives (row g, columns 2t..) of matrix i or, with kTransposed,
// (rows 2t.., column g).
template <bool kTransposed>
__device__ __forceinline__ void LoadMatrices(const BF16* row, uint32_t (&at)[4]) {
#if defined(__CUDACC__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  // volatile, because the contents of the address change.
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(at[0]), "=r"(at[1]), "=r"(at[2]), "=r"(at[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(at[0]), "=r"(at[1]), "=r"(at[2]), "=r"(at[3])
                 : "r"(address)
                 : "memory");
  }
#else
  STRETTO_CHECK(reinterpret_cast<uintptr_t>(row) % 16 == 0);
  std::memcpy(cuda_emulator::WarpPlace(cuda_emulator::Lane()), &row, sizeof(row));
  cuda_emulator::WarpBarrier();
  const LanePlace own = PlaceOfLane();
  for (int i = 0; i < 4; ++i) {
    at[i] = 0;
    for (int j = 0; j < 2; ++j) {
      const int r = kTransposed ? own.column + j : own.row;
      const int c = kTransposed ? own.row : own.column + j;
      const BF16* source;
      std::memcpy(&source, cuda_emulator::WarpPlace(i * 8 + r), sizeof(source));
      at[i] |= static_cast<uint32_t>(source[c].bits) << (16 * j);
    }
  }
  cuda_emulator::WarpBarrier();
#endif
}

// Starts to copy kBytes to shared memory, or zeros if not `valid` (from is then not read). Both
// addresses are aligned to kBytes. Each thread calls it on its own.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(void* shared, const void* from, bool valid) {
  static_assert(kBytes == 8 || kBytes == 16);
#if defined(__CUDACC__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int read = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(read)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(read)
                 : "memory");
  }
#else
  cuda_emulator::CopyLater(shared, from, kBytes, valid);
#endif
}

// Waits for all copies that this thread has started. Other threads see them after a barrier.
__device__ __forceinline__ void AwaitCopies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  cuda_emulator::FinishCopies();
#endif
}

}  // namespace stretto::cuda
