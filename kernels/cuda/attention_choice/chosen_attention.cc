// SPDX-License-Identifier: Apache-2.0

// Decides per shape, once, whether a library or our own kernel computes attention, and keeps the
// library's plan if it does. Every failure on the way (unsupported shape, no scratch, wrong
// results, slower) becomes a logged decision for our kernels, never an error of the step.

#include "kernels/cuda/attention_choice/chosen_attention.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stretto::cuda {
namespace {

class ChosenAttention final : public FusedAttention {
 public:
  explicit ChosenAttention(ChosenAttentionOptions options)
      : options_(std::move(options)),
        own_(MakeCudaOps({.stream = options_.stream,
                          .sm_count = options_.sm_count,
                          .workspace = options_.workspace})) {}

  bool Attention(const AttentionShape& shape, TensorView qkv, TensorView context,
                 TensorView lse) override {
    return Take(shape, false, {.qkv = qkv, .context = context, .lse = lse});
  }
  bool AttentionGrad(const AttentionShape& shape, TensorView dcontext, TensorView qkv,
                     TensorView context, TensorView lse, TensorView dqkv,
                     TensorView scratch) override {
    return Take(shape, true,
                {.qkv = qkv,
                 .context = context,
                 .lse = lse,
                 .dcontext = dcontext,
                 .dqkv = dqkv,
                 .scratch = scratch});
  }

 private:
  using Decision = std::unique_ptr<AttentionPlan>;  // null: our kernels

  bool Take(const AttentionShape& shape, bool backward, const AttentionTensors& tensors) {
    if (shape.head_dim % 8 != 0 || !Aligned(tensors)) return false;
    const AttentionKey key{.length = shape.sequence_length,
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .backward = backward,
                           .repeatable = backward && options_.repeatable,
                           .library_version = options_.library_version};
    auto at = plans_.find(key);
    if (at == plans_.end()) at = plans_.emplace(key, Decide(key, shape)).first;
    if (at->second == nullptr) return false;
    const absl::Status status = at->second->Run(tensors);
    if (status.ok()) return true;
    Report(key, absl::StrCat("our kernels from now on: ", status.message()));
    at->second.reset();
    return false;
  }

  // Libraries move packs of 16 bytes.
  static bool Aligned(const AttentionTensors& tensors) {
    uintptr_t bits = 0;
    for (const TensorView* tensor :
         {&tensors.qkv, &tensors.context, &tensors.dcontext, &tensors.dqkv})
      bits |= reinterpret_cast<uintptr_t>(tensor->data);
    return bits % 16 == 0;
  }

  // A library's plan and how it did against our kernels.
  struct Measured {
    Decision plan;
    AttentionTimes times;
  };

  Decision Decide(const AttentionKey& key, const AttentionShape& shape) {
    absl::StatusOr<Measured> chosen = Chosen(key, shape);
    if (!chosen.ok()) {
      Report(key, absl::StrCat("our kernels: ", chosen.status().message()));
      return nullptr;
    }
    Report(key, absl::StrCat(options_.library, ": ", chosen->times.library, " us, our kernels ",
                             chosen->times.own, " us"));
    return std::move(chosen->plan);
  }

  // Returns the plan, or the reason for using our kernels.
  absl::StatusOr<Measured> Chosen(const AttentionKey& key, const AttentionShape& shape) {
    const AttentionTimes* known = options_.tunings->Find(key);
    if (known != nullptr && !LibraryWins(*known)) return Slower(*known);
    if (known == nullptr && !options_.tune) return absl::NotFoundError("never measured");
    if (Capturing()) return absl::NotFoundError("first met while its stream was captured");
    if (known != nullptr) {
      absl::StatusOr<Decision> plan = options_.make_plan(shape, key.backward, known->together);
      if (!plan.ok()) return plan.status();
      return Measured{*std::move(plan), *known};
    }
    absl::StatusOr<Measured> tried = Try(key, shape, key.repeatable ? 1 : LibrarySequences(shape));
    // A sequence whose results depend on the others of its launch gets launches of its own.
    if (absl::IsInternal(tried.status()) && !key.repeatable) tried = Try(key, shape, 1);
    if (!tried.ok()) return tried;
    options_.tunings->Put(key, tried->times);
    if (!LibraryWins(tried->times)) return Slower(tried->times);
    return tried;
  }

  absl::StatusOr<Measured> Try(const AttentionKey& key, const AttentionShape& shape,
                               int64_t together) {
    absl::StatusOr<Decision> plan = options_.make_plan(shape, key.backward, together);
    if (!plan.ok()) return plan.status();
    const Trial trial{
        .shape = shape,
        .backward = key.backward,
        .repeatable = !key.backward || key.repeatable,
        .sequences = std::max<int64_t>(options_.pinned_tokens / shape.sequence_length, 2),
        .stream = options_.stream};
    absl::StatusOr<AttentionTimes> times = TryAttention(
        trial, *own_, [&](const AttentionTensors& tensors) { return (*plan)->Run(tensors); });
    if (!times.ok()) return times.status();
    times->together = together;
    return Measured{*std::move(plan), *times};
  }

  static bool LibraryWins(const AttentionTimes& times) {
    return FastestOf({{times.own}, {times.library}}) == 1;
  }
  absl::Status Slower(const AttentionTimes& times) const {
    return absl::NotFoundError(
        absl::StrCat(times.own, " us, ", options_.library, " ", times.library, " us"));
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

  const ChosenAttentionOptions options_;
  const std::unique_ptr<CudaOps> own_;
  std::map<AttentionKey, Decision> plans_;
};

}  // namespace

std::unique_ptr<FusedAttention> MakeChosenAttention(ChosenAttentionOptions options) {
  return std::make_unique<ChosenAttention>(std::move(options));
}

}  // namespace stretto::cuda
