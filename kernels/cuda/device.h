// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that device code shares: shared memory, packs of elements, and sums over a warp and a
// block, all in a fixed order.

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/bf16.h"

namespace stretto::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = ~0u;

// Returns the block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ __forceinline__ T* SharedMemory() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
#else
  return static_cast<T*>(cuda_emulator::DynamicShared());
#endif
}

// The number of elements that one 16-byte access moves.
template <class T>
inline constexpr int kPack = 16 / sizeof(T);

template <class T, int kCount = kPack<T>>
struct alignas(kCount * sizeof(T)) Pack {
  T at[kCount];
};

// CHECKs alignment off the device; devices trap by themselves when a pack is not aligned.
template <class P>
__device__ __forceinline__ void ExpectAligned([[maybe_unused]] const void* pack) {
#if !defined(__CUDACC__)
  cuda_emulator::ExpectAligned(pack, alignof(P));
#endif
}
template <class T>
__device__ __forceinline__ Pack<T> LoadPack(const T* from) {
  ExpectAligned<Pack<T>>(from);
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <class T, int kCount>
__device__ __forceinline__ void StorePack(T* to, const Pack<T, kCount>& pack) {
  ExpectAligned<Pack<T, kCount>>(to);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// Rounds to nearest even, like ToBF16.
template <class T>
__device__ __forceinline__ T Round(float value) {
#if defined(__CUDACC__)
  if constexpr (sizeof(T) == 2) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return {bits};
  } else {
    return value;
  }
#else
  return FromFloat<T>(value);
#endif
}

template <class T>
__device__ __forceinline__ T WarpSum(T value) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2)
    value += __shfl_xor_sync(kAllLanes, value, mask);
  return value;
}

__device__ __forceinline__ float WarpMax(float value) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, mask));
  return value;
}

// Repeated sums and maxima over a block, returned to every thread with one barrier each. Results
// alternate between two places, and whoever writes a place again has passed a barrier after all
// have read it. All threads of a one-dimensional block of whole warps must call it.
template <int kValues, class T = float>
class BlockReduce {
 public:
  using Places = T[2][kValues][kWarpSize];  // shared
  __device__ explicit BlockReduce(Places& places) : places_(places) {}

  __device__ __forceinline__ void Sum(T (&values)[kValues]) {
    Reduce(values, T{0}, [](T value) { return WarpSum(value); });
  }
  __device__ __forceinline__ void Max(T (&values)[kValues]) {
    Reduce(values, -std::numeric_limits<T>::infinity(), [](T value) { return WarpMax(value); });
  }

 private:
  template <class OverWarp>
  __device__ __forceinline__ void Reduce(T (&values)[kValues], T none, OverWarp over_warp) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int warps = static_cast<int>(blockDim.x) / kWarpSize;
    T(&place)[kValues][kWarpSize] = places_[turn_];
    turn_ ^= 1;
    for (int i = 0; i < kValues; ++i) {
      values[i] = over_warp(values[i]);
      if (lane == 0) place[i][warp] = values[i];
    }
    __syncthreads();
    for (int i = 0; i < kValues; ++i) values[i] = over_warp(lane < warps ? place[i][lane] : none);
  }

  Places& places_;
  int turn_ = 0;
};

}  // namespace stretto::cuda
