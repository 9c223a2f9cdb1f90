// SPDX-License-Identifier: Apache-2.0

// Opens cuDNN, and gives the choice of attention's kernels plans that launch a graph of it for
// several sequences at once where few heads would not fill the device. A number of sequences gets
// its graph when it is first met.

#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
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
  // Errors: those of SdpaPlan::Make for one sequence.
  static absl::StatusOr<std::unique_ptr<AttentionPlan>> Make(std::shared_ptr<cudnnContext> handle,
                                                             int capability, const SdpaPass& most,
                                                             void* workspace, cudaStream_t stream) {
    auto made =
        absl::WrapUnique(new CudnnPlan(std::move(handle), capability, most, workspace, stream));
    if (const absl::Status status = made->Add(1); !status.ok()) return status;
    return made;
  }

  absl::Status Run(const AttentionTensors& tensors) override {
    const int64_t sequences = tensors.qkv.rows() / pass_.shape.sequence_length;
    for (int64_t i = 0; i < sequences;) {
      const auto& [count, plan] = PlanOf(std::min(pass_.sequences, sequences - i));
      const absl::Status status =
          plan.Run(handle_.get(), tensors.Sequences(pass_.shape, i, count), WorkspaceOf(tensors));
      if (!status.ok()) return status;
      i += count;
    }
    return absl::OkStatus();
  }

 private:
  CudnnPlan(std::shared_ptr<cudnnContext> handle, int capability, const SdpaPass& pass,
            void* workspace, cudaStream_t stream)
      : handle_(std::move(handle)),
        capability_(capability),
        pass_(pass),
        workspace_(workspace),
        stream_(stream) {}

  absl::Status Add(int64_t sequences) {
    SdpaPass pass = pass_;
    pass.sequences = sequences;
    const int64_t room = pass.backward ? LibraryScratchBytes(pass.shape, pass.repeatable, sequences)
                                       : int64_t{kCudaWorkspaceBytes};
    absl::StatusOr<SdpaPlan> plan =
        SdpaPlan::Make({.handle = handle_.get(), .capability = capability_}, pass, room);
    if (!plan.ok()) return plan.status();
    plans_.emplace(sequences, *std::move(plan));
    return absl::OkStatus();
  }

  // Returns the plan for that many sequences, or the one for one sequence where there is none.
  const std::pair<const int64_t, SdpaPlan>& PlanOf(int64_t sequences) {
    auto at = plans_.find(sequences);
    if (at == plans_.end() && !Capturing() && tried_.insert(sequences).second &&
        Add(sequences).ok()) {
      at = plans_.find(sequences);
    }
    return at != plans_.end() ? *at : *plans_.begin();
  }

  bool Capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream_, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
  }

  void* WorkspaceOf(const AttentionTensors& tensors) const {
    if (tensors.scratch.data == nullptr) return workspace_;
    const uintptr_t behind = reinterpret_cast<uintptr_t>(tensors.scratch.data) % kAlignment;
    return static_cast<char*>(tensors.scratch.data) + (kAlignment - behind) % kAlignment;
  }

  const std::shared_ptr<cudnnContext> handle_;  // before the plans, which end first
  const int capability_;
  const SdpaPass pass_;    // of the most sequences
  void* const workspace_;  // of forward
  const cudaStream_t stream_;
  std::map<int64_t, SdpaPlan> plans_;  // by the number of sequences; that for one is always there
  std::set<int64_t> tried_;            // numbers for which a plan was asked
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
  const auto make_plan = [handle = *handle, capability = *capability, workspace = options.workspace,
                          repeatable = options.repeatable,
                          stream = static_cast<cudaStream_t>(options.stream)](
                             const AttentionShape& shape, bool backward, int64_t together) {
    return cuda::CudnnPlan::Make(
        handle, capability,
        {.shape = shape, .backward = backward, .repeatable = repeatable, .sequences = together},
        workspace, stream);
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
