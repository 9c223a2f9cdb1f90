// SPDX-License-Identifier: Apache-2.0

// Opens cuDNN, and gives the choice of attention's kernels plans that launch a graph of it for each
// sequence.

#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention_choice/chosen_attention.h"
#include "kernels/cuda/cudnn/cudnn_library.h"
#include "kernels/cuda/cudnn/sdpa_plan.h"

namespace stretto {
namespace cuda {
namespace {

constexpr uintptr_t kAlignment = 256;  // of workspaces

class CudnnPlan final : public AttentionPlan {
 public:
  CudnnPlan(std::shared_ptr<cudnnContext> handle, const AttentionShape& shape, SdpaPlan plan,
            void* workspace)
      : handle_(std::move(handle)), shape_(shape), plan_(std::move(plan)), workspace_(workspace) {}

  absl::Status Run(const AttentionTensors& tensors) override {
    const int64_t sequences = tensors.qkv.rows() / shape_.sequence_length;
    for (int64_t i = 0; i < sequences; ++i) {
      const absl::Status status =
          plan_.Run(handle_.get(), tensors.Sequences(shape_, i, 1), WorkspaceOf(tensors));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  void* WorkspaceOf(const AttentionTensors& tensors) const {
    if (tensors.scratch.data == nullptr) return workspace_;
    const auto address = reinterpret_cast<uintptr_t>(tensors.scratch.data);
    return reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }

  const std::shared_ptr<cudnnContext> handle_;  // before the plan, which ends first
  const AttentionShape shape_;
  const SdpaPlan plan_;
  void* const workspace_;  // of forward
};

absl::StatusOr<int> CapabilityOfDevice() {
  int device = 0, major = 0, minor = 0;
  for (const cudaError_t error :
       {cudaGetDevice(&device),
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)}) {
    if (error != cudaSuccess)
      return absl::UnavailableError(absl::StrCat("cuDNN's device: ", cudaGetErrorName(error)));
  }
  return 10 * major + minor;
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<FusedAttention>> MakeCudnnAttention(CudnnAttentionOptions options) {
  const absl::StatusOr<cuda::CudnnLibrary> library = cuda::CudnnLibrary::Open(options.library);
  if (!library.ok()) return library.status();
  const absl::StatusOr<int> capability = cuda::CapabilityOfDevice();
  if (!capability.ok()) return capability.status();
  const auto handle = library->MakeHandle(static_cast<cudaStream_t>(options.stream));
  if (!handle.ok()) return handle.status();
  const auto make_plan =
      [handle = *handle, capability = *capability, workspace = options.workspace,
       repeatable = options.repeatable](
          const AttentionShape& shape,
          bool backward) -> absl::StatusOr<std::unique_ptr<cuda::AttentionPlan>> {
    const int64_t room =
        backward ? LibraryScratchBytes(shape, repeatable) : int64_t{kCudaWorkspaceBytes};
    absl::StatusOr<cuda::SdpaPlan> plan = cuda::SdpaPlan::Make(
        {.handle = handle.get(), .capability = capability},
        {.shape = shape, .backward = backward, .repeatable = repeatable}, room);
    if (!plan.ok()) return plan.status();
    return std::make_unique<cuda::CudnnPlan>(handle, shape, *std::move(plan), workspace);
  };
  return cuda::MakeChosenAttention({.stream = options.stream,
                                    .sm_count = options.sm_count,
                                    .workspace = options.workspace,
                                    .tunings = options.tunings,
                                    .library = "cuDNN",
                                    .library_version = library->version,
                                    .repeatable = options.repeatable,
                                    .make_plan = make_plan,
                                    .pinned_tokens = options.pinned_tokens,
                                    .tune = options.tune,
                                    .report = std::move(options.report)});
}

absl::StatusOr<int64_t> CudnnVersion(const std::string& library) {
  const absl::StatusOr<cuda::CudnnLibrary> opened = cuda::CudnnLibrary::Open(library);
  if (!opened.ok()) return opened.status();
  return opened->version;
}

}  // namespace stretto
