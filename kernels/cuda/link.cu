// SPDX-License-Identifier: Apache-2.0

// A block moves chunks at the pace of the link: it waits until a chunk is due, loads it with many
// accesses in flight, scales it, and stores every copy.

#include <bit>
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/link.h"
#include "proto/base/check.h"

namespace stretto {
namespace cuda {
namespace {

constexpr int kThreads = 512;
// Registers of a block are at most half of an SM's, so that it finds room beside one block of ours.
constexpr int kBlocksPerSm = 2;
constexpr int kInFlight = 8;  // accesses that a thread issues before the first must have arrived

// Returns the device's clock in nanoseconds; it is the same on all SMs.
__device__ __forceinline__ int64_t GlobalTimer() {
#if defined(__CUDACC__)
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return cuda_emulator::GlobalTimer();
#endif
}

// Makes the whole block wait until `time`; only its first thread polls the clock.
__device__ __forceinline__ void WaitUntil(int64_t time) {
  if (threadIdx.x == 0) {
    while (GlobalTimer() < time) {
    }
  }
  __syncthreads();
}

__device__ __forceinline__ float Times(float x, int scale) { return x * static_cast<float>(scale); }
__device__ __forceinline__ BF16 Times(BF16 x, int scale) {
  return Round<BF16>(ToFloat(x) * static_cast<float>(scale));
}
__device__ __forceinline__ int32_t Times(int32_t x, int scale) { return x * scale; }

template <class G>
__device__ __forceinline__ G ScaledPack(G pack, int scale) {
  for (auto& x : pack.at) x = Times(x, scale);
  return pack;
}
#if defined(__CUDACC__)
// Two elements at once, with the same bits: bf16 holds the scale exactly, so the product is rounded
// once. One by one, multiplications and conversions would take as long as the accesses. Adding -0
// changes nothing.
__device__ __forceinline__ Pack<BF16> ScaledPack(Pack<BF16> pack, int scale) {
  struct Words {
    uint32_t at[kPack<BF16> / 2];
  };
  const uint32_t factor = Round<BF16>(static_cast<float>(scale)).bits;
  Words words = std::bit_cast<Words>(pack);
  for (uint32_t& x : words.at) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(x)
        : "r"(x), "r"(factor | factor << 16), "r"(0x80008000u));
  }
  return std::bit_cast<Pack<BF16>>(words);
}
#endif

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) Move(LinkTransfer transfer) {
  using G = Pack<T, kWidth>;  // moved by one access
  // Held as words: elements of 16 bits would take a register each, twice the bound.
  using Words = std::conditional_t<sizeof(G) == sizeof(uint4), uint4, G>;
  const int64_t start = threadIdx.x == 0 ? GlobalTimer() + transfer.latency_nanoseconds : 0;
  const int64_t groups = transfer.count / kWidth;
  constexpr int64_t kChunk = int64_t{kThreads} * kInFlight;
  const int64_t chunks = (groups + kChunk - 1) / kChunk;
  const Words* in = static_cast<const Words*>(transfer.in);
  G* out = static_cast<G*>(transfer.out);
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    WaitUntil(start + transfer.transfer_nanoseconds * chunk / chunks);
    const int64_t first = chunk * kChunk + threadIdx.x;
    Words held[kInFlight];
    for (int n = 0; n < kInFlight; ++n) {
      const int64_t i = first + n * kThreads;
      if (i < groups) held[n] = in[i];
    }
    for (int n = 0; n < kInFlight; ++n) {
      const int64_t i = first + n * kThreads;
      if (i >= groups) continue;
      const G group = ScaledPack(std::bit_cast<G>(held[n]), transfer.scale);
      for (int64_t copy = 0; copy < transfer.copies; ++copy) out[copy * groups + i] = group;
    }
  }
  WaitUntil(start + transfer.transfer_nanoseconds);
}

template <class T>
auto KernelFor(const LinkTransfer& transfer) {
  const auto misaligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 != 0; };
  const bool whole =
      transfer.count % kPack<T> == 0 && !misaligned(transfer.in) && !misaligned(transfer.out);
  return whole ? Move<T, kPack<T>> : Move<T, 1>;
}

auto KernelOf(const LinkTransfer& transfer) {
  switch (transfer.dtype) {
    case DType::kF32:
      return KernelFor<float>(transfer);
    case DType::kBF16:
      return KernelFor<BF16>(transfer);
    case DType::kI32:
      break;
  }
  return KernelFor<int32_t>(transfer);
}

}  // namespace
}  // namespace cuda

const char* LaunchLinkTransfer(const LinkTransfer& transfer, void* stream) {
  STRETTO_CHECK(transfer.blocks >= 1 && transfer.copies >= 1 && transfer.scale <= kMostLinkScale);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(transfer.blocks));
  config.blockDim = dim3(cuda::kThreads);
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t status = cudaLaunchKernelEx(&config, cuda::KernelOf(transfer), transfer);
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace stretto
