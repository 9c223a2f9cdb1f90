// SPDX-License-Identifier: Apache-2.0

// Decides per shape, once, whether cuDNN or our own kernel computes attention, and keeps the plan
// of cuDNN if it does. Every failure on the way (unsupported shape, no workspace, wrong results,
// slower) becomes a logged decision for our kernels, never an error of the step.

#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cudnn/attention_trial.h"
#include "kernels/cuda/cudnn/sdpa_plan.h"

namespace stretto {
namespace cuda {
namespace {

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(CudnnAttentionOptions options, const CudnnLibrary& library, cudnnHandle_t handle)
      : options_(std::move(options)),
        library_(library),
        handle_(handle),
        own_(MakeCudaOps({.stream = options_.stream,
                          .sm_count = options_.sm_count,
                          .workspace = options_.workspace})) {}
  ~CudnnAttention() override {
    plans_.clear();
    library_.Destroy(handle_);
  }

  bool Attention(const AttentionShape& shape, TensorView qkv, TensorView context,
                 TensorView lse) override {
    return Take(shape, false, {.qkv = qkv, .context = context, .lse = lse});
  }
  bool AttentionGrad(const AttentionShape& shape, TensorView dcontext, TensorView qkv,
                     TensorView context, TensorView lse, TensorView dqkv) override {
    return Take(shape, true,
                {.qkv = qkv, .context = context, .lse = lse, .dcontext = dcontext, .dqkv = dqkv});
  }

 private:
  using Decision = std::optional<SdpaPlan>;  // none: our kernels

  bool Take(const AttentionShape& shape, bool backward, const AttentionTensors& tensors) {
    if (shape.head_dim % 8 != 0 || !Aligned(tensors)) return false;
    const AttentionKey key{.length = shape.sequence_length,
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .backward = backward,
                           .library_version = library_.version};
    auto at = plans_.find(key);
    if (at == plans_.end()) at = plans_.emplace(key, Decide(key, shape)).first;
    if (!at->second.has_value()) return false;
    const absl::Status status = Enqueue(*at->second, shape.scale(), tensors);
    if (status.ok()) return true;
    Report(key, absl::StrCat("our kernels from now on: ", status.message()));
    at->second.reset();
    return false;
  }

  // The graphs assume packs of 16 bytes.
  static bool Aligned(const AttentionTensors& tensors) {
    uintptr_t bits = 0;
    for (const TensorView* tensor :
         {&tensors.qkv, &tensors.context, &tensors.dcontext, &tensors.dqkv})
      bits |= reinterpret_cast<uintptr_t>(tensor->data);
    return bits % 16 == 0;
  }

  Decision Decide(const AttentionKey& key, const AttentionShape& shape) {
    absl::StatusOr<SdpaPlan> plan = Chosen(key, shape);
    if (plan.ok()) return *std::move(plan);
    Report(key, absl::StrCat("our kernels: ", plan.status().message()));
    return std::nullopt;
  }

  // Returns the plan, or the reason for using our kernels.
  absl::StatusOr<SdpaPlan> Chosen(const AttentionKey& key, const AttentionShape& shape) {
    const AttentionTimes* known = options_.tunings->Find(key);
    if (known != nullptr && !LibraryWins(*known)) return Slower(*known);
    if (known == nullptr && !options_.tune) return absl::NotFoundError("never measured");
    if (Capturing()) return absl::NotFoundError("first met while its stream was captured");
    absl::StatusOr<SdpaPlan> plan = MakePlan(key);
    if (!plan.ok()) return plan;
    if (known == nullptr) {
      const Trial trial{
          .shape = shape,
          .backward = key.backward,
          .sequences = std::max<int64_t>(options_.pinned_tokens / shape.sequence_length, 2),
          .stream = options_.stream};
      const absl::StatusOr<AttentionTimes> times = TryAttention(
          trial, *own_,
          [&](const AttentionTensors& tensors) { return Enqueue(*plan, shape.scale(), tensors); });
      if (!times.ok()) return times.status();
      options_.tunings->Put(key, *times);
      known = options_.tunings->Find(key);
      if (!LibraryWins(*known)) return Slower(*known);
    }
    Report(key, absl::StrCat("cuDNN: ", known->library, " us, our kernels ", known->own, " us"));
    return plan;
  }

  static bool LibraryWins(const AttentionTimes& times) {
    return FastestOf({{times.own}, {times.library}}) == 1;
  }
  static absl::Status Slower(const AttentionTimes& times) {
    return absl::NotFoundError(absl::StrCat(times.own, " us, cuDNN ", times.library, " us"));
  }

  // Makes a plan for as many heads as the workspace allows.
  absl::StatusOr<SdpaPlan> MakePlan(const AttentionKey& key) {
    absl::StatusOr<SdpaPlan> plan = absl::ResourceExhaustedError("");
    for (int64_t kv_heads = key.kv_heads; kv_heads > 0; --kv_heads) {
      if (key.kv_heads % kv_heads != 0) continue;
      const SdpaShape shape{.length = key.length,
                            .kv_heads = kv_heads,
                            .group = key.heads / key.kv_heads,
                            .head_dim = key.head_dim,
                            .row_kv_heads = key.kv_heads};
      plan = SdpaPlan::Make(library_, {.handle = handle_}, shape, key.backward,
                            options_.workspace_bytes);
      if (!absl::IsResourceExhausted(plan.status())) return plan;
    }
    return plan;
  }

  absl::Status Enqueue(const SdpaPlan& plan, float scale, const AttentionTensors& tensors) {
    const SdpaShape& shape = plan.shape();
    const int64_t rows = tensors.qkv.rows();
    for (int64_t row = 0; row < rows; row += shape.length) {
      for (int64_t kv_head = 0; kv_head < shape.row_kv_heads; kv_head += shape.kv_heads) {
        const absl::Status status =
            plan.Run(handle_, scale, AddressesOf(shape, tensors, row, kv_head), options_.workspace);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  static SdpaAddresses AddressesOf(const SdpaShape& shape, const AttentionTensors& tensors,
                                   int64_t row, int64_t kv_head) {
    const auto at = [](const TensorView& tensor, int64_t element) -> void* {
      if (tensor.data == nullptr) return nullptr;
      return static_cast<char*>(tensor.data) + element * static_cast<int64_t>(SizeOf(tensor.dtype));
    };
    const int64_t query = row * shape.qkv_columns() + kv_head * shape.kv_columns();
    const int64_t key = query + shape.group * shape.head_dim, value = key + shape.head_dim;
    const int64_t context = row * shape.context_columns() + kv_head * shape.group * shape.head_dim;
    SdpaAddresses addresses = {};
    addresses[kQuery] = at(tensors.qkv, query);
    addresses[kKey] = at(tensors.qkv, key);
    addresses[kValue] = at(tensors.qkv, value);
    addresses[kContext] = at(tensors.context, context);
    addresses[kLse] =
        at(tensors.lse, row * shape.row_heads() + kv_head * shape.group * shape.length);
    addresses[kDContext] = at(tensors.dcontext, context);
    addresses[kDQuery] = at(tensors.dqkv, query);
    addresses[kDKey] = at(tensors.dqkv, key);
    addresses[kDValue] = at(tensors.dqkv, value);
    return addresses;
  }

  bool Capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(static_cast<cudaStream_t>(options_.stream), &status) !=
               cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
  }

  void Report(const AttentionKey& key, absl::string_view decision) const {
    if (!options_.report) return;
    options_.report(absl::StrCat("attention of length ", key.length, ", ", key.heads, " heads, ",
                                 key.kv_heads, " key/value heads of ", key.head_dim, ", ",
                                 key.backward ? "backward" : "forward", ": ", decision));
  }

  const CudnnAttentionOptions options_;
  const CudnnLibrary library_;
  const cudnnHandle_t handle_;
  const std::unique_ptr<CudaOps> own_;
  std::map<AttentionKey, Decision> plans_;
};

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<FusedAttention>> MakeCudnnAttention(CudnnAttentionOptions options) {
  absl::StatusOr<cuda::CudnnLibrary> library = cuda::CudnnLibrary::Open(options.library);
  if (!library.ok()) return library.status();
  cudnnHandle_t handle = nullptr;
  absl::Status status = library->StatusOf(library->Create(&handle), "cudnnCreate");
  if (!status.ok()) return absl::UnavailableError(status.message());
  status = library->StatusOf(library->SetStream(handle, static_cast<cudaStream_t>(options.stream)),
                             "cudnnSetStream");
  if (!status.ok()) {
    library->Destroy(handle);
    return absl::UnavailableError(status.message());
  }
  return std::make_unique<cuda::CudnnAttention>(std::move(options), *library, handle);
}

absl::StatusOr<int64_t> CudnnVersion(const std::string& library) {
  const absl::StatusOr<cuda::CudnnLibrary> opened = cuda::CudnnLibrary::Open(library);
  if (!opened.ok()) return opened.status();
  return opened->version;
}

}  // namespace stretto
