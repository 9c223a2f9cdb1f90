// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda_device.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "tests/kernels/testing.h"

namespace stretto {
namespace {

void Expect(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::abort();
}

// Little at a time: a test's tensors.
void* Managed(size_t bytes) {
  void* memory = nullptr;
  Expect(cudaMallocManaged(&memory, bytes == 0 ? 1 : bytes), "cudaMallocManaged");
  return memory;
}

}  // namespace

CudaDevice& CudaDevice::Get() {
  static auto* device = new CudaDevice;
  return *device;
}

CudaDevice::CudaDevice() {
  cudaStream_t stream = nullptr;
  Expect(cudaStreamCreate(&stream), "cudaStreamCreate");
  stream_ = stream;
  Expect(cudaMalloc(&workspace_, kCudaWorkspaceBytes), "cudaMalloc");
  Expect(cudaMalloc(&products_workspace_, kProductsWorkspaceBytes), "cudaMalloc");
  Expect(cudaDeviceGetAttribute(&sm_count_, cudaDevAttrMultiProcessorCount, 0),
         "cudaDeviceGetAttribute");
  tunings_ = std::make_unique<cuda::Tunings>(EmptyTunings());
  products_ = Products(tunings_.get(), /*pin=*/true, /*tune=*/false);
  tensor_memory = {.allocate = Managed, .release = [](void* memory) { cudaFree(memory); }};
}

cuda::Tunings CudaDevice::EmptyTunings() {
  absl::StatusOr<cuda::Tunings> tunings = TuningsOfDevice();
  STRETTO_CHECK(tunings.ok());
  return *std::move(tunings);
}

std::unique_ptr<MatrixProducts> CudaDevice::Products(cuda::Tunings* tunings, bool pin, bool tune) {
  absl::StatusOr<std::unique_ptr<MatrixProducts>> products =
      MakeCublasLtProducts({.stream = stream_,
                            .workspace = products_workspace_,
                            .tunings = tunings,
                            .pin = pin,
                            .tune = tune});
  STRETTO_CHECK(products.ok());
  return *std::move(products);
}

std::unique_ptr<CudaOps> CudaDevice::Ops(int sms, FusedAttention* attention) {
  std::unique_ptr<CudaOps> ops = MakeCudaOps({.stream = stream_,
                                              .sm_count = sm_count_,
                                              .workspace = workspace_,
                                              .products = products_.get(),
                                              .attention = attention});
  ops->LimitSms(sms);
  return ops;
}

void CudaDevice::Wait() { Expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

}  // namespace stretto
