// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CUDA device made of this process, for tests on machines without one: the part of the CUDA
// runtime that kernels/cuda and exec/backend_cuda use, under its own name, so that their sources
// compile with a C++ compiler and run on the CPU.
//
// A kernel runs one block after another; the threads of a block are fibers that switch at barriers
// and warp collectives, in an order drawn from a seed, so that a missing barrier shows. What it
// proves: indices, arithmetic, barriers, order between streams. What it cannot: memory order
// between blocks, alignment traps other than of packs (ExpectAligned), speed. One process has one
// device; one thread at a time uses it.
//
// Stricter than a GPU: a barrier that some thread of the block (or of the warp) never reaches ends
// the process with the kernel's name instead of hanging.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/cuda_emulator/runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace cuda_emulator {

constexpr int kWarp = 32;

struct ThreadPosition {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern ThreadPosition position;  // of the fiber that runs

void BlockBarrier();
void WarpBarrier();
// The warp's exchange: 32 places of 64 bytes.
void* WarpPlace(int lane);
int Lane();
void* DynamicShared();
// Copies of the running thread that happen in FinishCopies and not before, as late as an
// asynchronous copy may. Not `valid`: zeros.
void CopyLater(void* to, const void* from, size_t bytes, bool valid);
void FinishCopies();
// Ends the process, as the access would on a device, where it is not.
void ExpectAligned(const void* address, size_t bytes);

template <class T>
T Exchange(T value, int from) {
  static_assert(sizeof(T) <= 64);
  std::memcpy(WarpPlace(Lane()), &value, sizeof(T));
  WarpBarrier();
  T result;
  std::memcpy(&result, WarpPlace(from & (kWarp - 1)), sizeof(T));
  WarpBarrier();
  return result;
}

}  // namespace cuda_emulator

inline const uint3& threadIdx = cuda_emulator::position.thread;
inline const uint3& blockIdx = cuda_emulator::position.block;
inline const dim3& blockDim = cuda_emulator::position.block_size;
inline const dim3& gridDim = cuda_emulator::position.grid_size;

inline void __syncthreads() { ::cuda_emulator::BlockBarrier(); }
inline void __syncwarp(unsigned = ~0u) { ::cuda_emulator::WarpBarrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return ::cuda_emulator::Exchange(value, ::cuda_emulator::Lane() ^ mask);
}
namespace cuda_emulator {

// %globaltimer: a clock that advances by 100 ns whenever a kernel reads it.
inline int64_t global_timer = 0;
inline int64_t GlobalTimer() { return global_timer += 100; }

}  // namespace cuda_emulator

inline void sincospif(float x, float* sine, float* cosine) {
  *sine = static_cast<float>(std::sin(3.14159265358979323846 * static_cast<double>(x)));
  *cosine = static_cast<float>(std::cos(3.14159265358979323846 * static_cast<double>(x)));
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}

struct cudaLaunchAttribute {};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

namespace cuda_emulator {

// Dynamic shared memory of a block, as on Hopper: what every kernel may have, and what one may that
// asked for it.
constexpr size_t kSharedOfAll = 48 * 1024, kSharedLimit = 227 * 1024;
void AllowShared(const void* kernel, size_t bytes);
size_t AllowedShared(const void* kernel);

// Runs `thread` for every thread of the grid.
void RunGrid(const cudaLaunchConfig_t& config, const std::function<void()>& thread);

}  // namespace cuda_emulator

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...),
                               A&&... args) {
  if (config->dynamicSmemBytes >
      cuda_emulator::AllowedShared(reinterpret_cast<const void*>(kernel)))
    return cudaErrorInvalidValue;
  if (config->blockDim.x * config->blockDim.y * config->blockDim.z > 1024)
    return cudaErrorInvalidValue;
  return cuda_emulator::Enqueue(config->stream,
                                [config = *config, kernel, ... held = static_cast<P>(args)] {
                                  cuda_emulator::RunGrid(config, [&] { kernel(held...); });
                                });
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute, int bytes) {
  if (static_cast<size_t>(bytes) > cuda_emulator::kSharedLimit) return cudaErrorInvalidValue;
  cuda_emulator::AllowShared(reinterpret_cast<const void*>(kernel), static_cast<size_t>(bytes));
  return cudaSuccess;
}

template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int threads,
                                                          size_t) {
  *blocks = 2048 / threads;
  return cudaSuccess;
}
