#include "absl/strings/str_cat.h"
#include "coordinator/service/spec_checks.h"

namespace stretto::service {
namespace {

// Of the CUDA kernels (kernels/cuda/cuda_ops.h).
constexpr int64_t kMaxRowBytes = int64_t{64} << 10;
constexpr int kMaxRotaryHead = 256;
constexpr int64_t kMaxTokens = int64_t{8} << 20;  // of a micro-batch

void CheckLink(const v1alpha1::EmulatedLink& link, Violations* violations) {
  const double rate = link.gigabits_per_second(), latency = link.latency_microseconds();
  violations->Number("spec.emulated_link.gigabits_per_second", rate, rate > 0 && rate <= 1e6,
                     "a number above 0, at most 1e6");
  violations->Number("spec.emulated_link.latency_microseconds", latency,
                     latency >= 0 && latency <= 1e7, "a number from 0 to 1e7");
}

void CheckCuda(const v1alpha1::JobSpec& spec, Violations* violations) {
  // A link on a GPU moves no tensors, so nothing would be learnt.
  violations->Require(
      !spec.has_emulated_link(), "spec.emulated_link",
      "found one, expected none with DEVICE_CUDA: ranks on GPUs train over the real "
      "link (stretto-bench measures a GPU with an emulated one)");
  const v1alpha1::ModelSpec& model = spec.model();
  const bool bf16 = spec.precision() == v1alpha1::PRECISION_BF16;
  const int64_t most = kMaxRowBytes / (bf16 ? 2 : 4);
  violations->Expect(model.hidden() <= most, "spec.model.hidden", model.hidden(),
                     absl::StrCat("at most ", most, " with DEVICE_CUDA and this precision"));
  if (model.family() == v1alpha1::FAMILY_LLAMA && model.heads() > 0) {
    const int head = model.hidden() / model.heads();
    violations->Expect(head <= kMaxRotaryHead, "spec.model.heads",
                       absl::StrCat("heads of dimension ", head),
                       absl::StrCat("at most ", kMaxRotaryHead, " with DEVICE_CUDA"));
  }
  const int64_t tokens = int64_t{spec.micro_batch_size()} * model.sequence_length();
  violations->Expect(tokens <= kMaxTokens, "spec.micro_batch_size", absl::StrCat(tokens, " tokens"),
                     absl::StrCat("at most ", kMaxTokens, " with DEVICE_CUDA"));
}

}  // namespace

void CheckDevice(const v1alpha1::JobSpec& spec, Violations* violations) {
  if (spec.device() == v1alpha1::DEVICE_CUDA) return CheckCuda(spec, violations);
  violations->Expect(spec.device() == v1alpha1::DEVICE_CPU, "spec.device",
                     static_cast<int>(spec.device()), "DEVICE_CPU or DEVICE_CUDA");
  if (spec.has_emulated_link()) CheckLink(spec.emulated_link(), violations);
}

}  // namespace stretto::service
