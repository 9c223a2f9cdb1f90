// SPDX-License-Identifier: Apache-2.0

// The limits of the CUDA kernels (kernels/cuda/cuda_ops.h).
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/spec/architecture.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/rules.h"

namespace stretto::spec {
namespace {

constexpr int64_t kMaxRowBytes = int64_t{64} << 10;
constexpr int kMaxRotaryHead = 256;
constexpr int64_t kMaxTokens = int64_t{8} << 20;  // of a micro-batch

void CheckHeads(const v1alpha1::ModelSpec& model, Violations* violations) {
  const Architecture* architecture = FindArchitecture(model.family());
  if (architecture == nullptr || architecture->positions != PositionKind::kRotary) return;
  if (!violations->Sound({"model.hidden", "model.heads"})) return;
  const int head = model.hidden() / model.heads();
  violations->Expect(head <= kMaxRotaryHead, "model.heads",
                     absl::StrCat("heads of dimension ", head),
                     absl::StrCat("at most ", kMaxRotaryHead, " with DEVICE_CUDA"));
}

// Every rank of a job must have the same sums. NCCL adds in an order that depends on a rank's place
// in its communicator, so sums of more than two ranks may differ between communicators: the norm
// between those of replicas, gradients of unsharded parameters between those of shards, and the
// gradient of a tied embedding between the replicas of the first stage and those of the last.
// Stages of one tp_size add up one number and zeros, which has the same bits in any order. In
// unlike stages, all ranks of a replica add up the norm at once.
void CheckReplicas(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "parallelism.dp_size";
  if (!violations->Sound(
          {field, "parallelism.tp_size", "parallelism.pp_size", "parallelism.stages"}))
    return;
  const std::vector<int> replicas = ReplicasOf(spec.parallelism());
  const bool equal = std::all_of(replicas.begin(), replicas.end(),
                                 [&](int of_stage) { return of_stage == replicas.front(); });
  violations->Expect(equal, "parallelism.stages", "stages of several dp_size",
                     "stages of one dp_size with DEVICE_CUDA");
  if (!equal) return;
  const std::vector<int> sizes = TpSizesOf(spec.parallelism());
  const int tp = sizes.front(), dp = replicas.front();
  const bool unlike = std::any_of(sizes.begin(), sizes.end(), [=](int size) { return size != tp; });
  const bool tied = spec.parallelism().pp_size() > 1 && spec.model().tied_head();
  const int most = unlike || tp > 2 ? 1 : tp == 2 || tied ? 2 : dp;
  const std::string where = unlike   ? "stages of several tp_size"
                            : tp > 1 ? absl::StrCat("tp_size ", tp)
                                     : "stages with a tied head";
  violations->Expect(dp <= most, field, dp,
                     absl::StrCat("at most ", most, " with DEVICE_CUDA and ", where));
}

}  // namespace

void CheckDevice(const v1alpha1::JobSpec& spec, Violations* violations) {
  if (spec.device() != v1alpha1::DEVICE_CUDA) return;
  const v1alpha1::ModelSpec& model = spec.model();
  if (violations->Sound({"model.hidden", "precision"})) {
    const bool bf16 = spec.precision() == v1alpha1::PRECISION_BF16;
    const int64_t most = kMaxRowBytes / (bf16 ? 2 : 4);
    violations->Expect(model.hidden() <= most, "model.hidden", model.hidden(),
                       absl::StrCat("at most ", most, " with DEVICE_CUDA and this precision"));
  }
  CheckHeads(model, violations);
  CheckReplicas(spec, violations);
  if (violations->Sound({"micro_batch_size", "model.sequence_length"})) {
    const int64_t tokens = int64_t{spec.micro_batch_size()} * model.sequence_length();
    violations->Expect(tokens <= kMaxTokens, "micro_batch_size", absl::StrCat(tokens, " tokens"),
                       absl::StrCat("at most ", kMaxTokens, " with DEVICE_CUDA"));
  }
}

}  // namespace stretto::spec
