// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "tests/cuda/sm_stamps.h"

namespace stretto {
namespace {

__device__ __forceinline__ int64_t GlobalTimer() {
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void WriteStamps(Stamp* stamps, int64_t stay_nanoseconds) {
  if (threadIdx.x == 0) {
    const int64_t begin = GlobalTimer();
    int32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    stamps[blockIdx.x] = {begin, sm};
    while (GlobalTimer() < begin + stay_nanoseconds) {
    }
  }
  __syncthreads();
}

}  // namespace

const char* LaunchStamps(const StampLaunch& launch, Stamp* stamps, void* stream) {
  cudaError_t status =
      cudaFuncSetAttribute(WriteStamps, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(launch.shared_bytes));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  if (status == cudaSuccess)
    status = cudaLaunchKernelEx(&config, WriteStamps, stamps, launch.stay_nanoseconds);
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace stretto
