// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"
#include "worker/engine/exec/backend_cuda/handles.h"

namespace stretto {
namespace {

constexpr char kCupti[] = "libcupti.so.13";

class CudaBackend final : public Backend {
 public:
  CudaBackend(CudaExecutorOptions options, std::string name)
      : options_(std::move(options)), name_(std::move(name)) {}

  std::string Describe() const override { return name_; }

  absl::StatusOr<int64_t> FreeMemory() const override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(options_.device));
    size_t free = 0, total = 0;
    RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free, &total));
    return static_cast<int64_t>(free);
  }

  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    CudaRank rank{.step = std::move(request.step),
                  .program = std::move(request.program),
                  .arenas = request.arenas,
                  .links = std::move(request.links),
                  .on_begin = std::move(request.on_begin),
                  .borrowed = std::move(request.borrowed)};
    IdVector<LocalRank, CudaRank> ranks;
    ranks.push_back(std::move(rank));
    CudaExecutorOptions options = options_;
    if (options_.report) {
      options.report = [this](const std::string& sentence) {
        if (said_.insert(sentence).second) options_.report(sentence);
      };
    }
    ASSIGN_OR_RETURN(auto executors, MakeCudaExecutors(std::move(ranks), std::move(options)));
    return std::move(executors[0]);
  }

 private:
  const CudaExecutorOptions options_;
  const std::string name_;
  std::set<std::string> said_;  // to options_.report: once is enough
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(CudaExecutorOptions options) {
  cudaDeviceProp device = {};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&device, options.device));
  int driver = 0, runtime = 0;
  RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&driver));
  RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  std::string name = absl::StrCat("cuda: device ", options.device, ", ", device.name, ", ",
                                  device.multiProcessorCount, " SMs, ",
                                  FormatBytes(static_cast<int64_t>(device.totalGlobalMem)),
                                  ", driver for CUDA ", driver / 1000, ".", driver % 1000 / 10,
                                  ", runtime ", runtime / 1000, ".", runtime % 1000 / 10);
  if (const char* cupti = std::getenv("STRETTO_CUPTI"); cupti != nullptr) {
    options.cupti = absl::string_view(cupti) == "1" ? kCupti : cupti;
  }
  return std::make_unique<CudaBackend>(std::move(options), std::move(name));
}

MakeStreamOps KernelsWith(int device, MakeProducts make_products, MakeAttention make_attention) {
  return [device, make_products = std::move(make_products),
          make_attention = std::move(make_attention)](void* stream) -> absl::StatusOr<StreamOps> {
    cudaDeviceProp properties = {};
    RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, device));
    ASSIGN_OR_RETURN(cuda::DeviceMemory workspace, cuda::MakeDeviceMemory(kCudaWorkspaceBytes));
    StreamOps made;
    ASSIGN_OR_RETURN(made.products, make_products(stream, workspace.get()));
    const int sms = properties.multiProcessorCount;
    if (make_attention) made.attention = make_attention(stream, workspace.get(), sms);
    made.ops = MakeCudaOps({.stream = stream,
                            .sm_count = sms,
                            .workspace = workspace.get(),
                            .products = made.products.get(),
                            .attention = made.attention.get()});
    made.workspace = std::move(workspace);
    return made;
  };
}

}  // namespace stretto
