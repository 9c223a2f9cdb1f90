// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

// With sequence parallelism every rank has computed the gradients of replicated parameters from its
// own rows only, so one all-reduce adds them up.
void Emitter::ReduceReplicated() {
  const auto bucket = buckets_.find(kReplicatedBucket);
  if (bucket == buckets_.end()) return;
  AllReduce({.name = bucket->first, .phase = Phase::kOptimizer}, bucket->second.buffer, false);
}

// Returns the parameters in the order in which their gradients become final: backward's, and behind
// it those that a replica's ranks must have added up first.
std::vector<size_t> Emitter::InOrderOfGradients() const {
  std::vector<size_t> order;
  for (bool replicated : {false, true}) {
    for (size_t i = parameters_.size(); i-- > 0;) {
      if ((BucketOf(parameters_[i]) == kReplicatedBucket) == replicated) order.push_back(i);
    }
  }
  return order;
}

// Each replica has computed the gradients of its own sequences. A bucket is summed as soon as its
// last contribution is there, because the operation waits for nothing else, so sums run under the
// rest of backward.
void Emitter::ReduceOverReplicas(const std::vector<size_t>& order) {
  if (spec_.dp_size == 1) return;
  std::set<BufferId> reduced;
  for (size_t i : order) {
    const BufferId bucket = RootOf(step_.buffers, ids_.gradient[i]).buffer;
    if (!reduced.insert(bucket).second) continue;
    const std::string name(absl::StripSuffix(BufferName(bucket), ".grad"));
    AddCollective(OpKind::kAllReduce, {.name = name, .phase = Phase::kOptimizer}, bucket, bucket,
                  DType::kF32, kDpGroup);
  }
}

// The sums of gradients, their norm over all shards, and AdamW. The norm counts each parameter
// once: shards on every rank of a replica, replicated parameters on its first rank only. Where
// communicators add in rank order, all replicas have the same sums, and so the same norm and the
// same updates; the spec's rules refuse layouts where they might not. Parameters come in the order
// of their gradients, so that what is computed of the first ones hides the last sums.
void Emitter::EmitOptimizer() {
  StartUnit("optimizer");
  ReduceReplicated();
  const std::vector<size_t> order = InOrderOfGradients();
  ReduceOverReplicas(order);
  const int64_t count = static_cast<int64_t>(parameters_.size());
  const BufferId parts = NewBuffer("norm_parts", DType::kF32, {count}, ArenaClass::kActivation);
  const BufferId total = NewBuffer("norm_total", DType::kF32, {1}, ArenaClass::kActivation);
  const Tag norm{.name = "grad_norm", .phase = Phase::kOptimizer};
  const auto clip = [&] { Add(OpKind::kClip, norm, {total, ids_.scalars}, {ids_.clip_state}); };
  // Updates then read the clip state of a norm of 0, which clips and skips nothing. The true norm
  // replaces it at the end, for the host to read.
  if (spec_.update_at_once) {  // what updates read: by a norm of 0, nothing clipped or skipped
    Add(OpKind::kZero, norm, {}, {total});
    clip();
  }
  for (size_t i : order) {
    const Tag tag{.name = parameters_[i].name, .phase = Phase::kOptimizer};
    const BufferId part = View(parts, absl::StrCat("norm_parts.", i), static_cast<int64_t>(i), {1});
    if (parameters_[i].sharded() || tp_rank_ == 0) {
      Add(OpKind::kSumSquares, tag, {ids_.gradient[i]}, {part});
    } else {
      Add(OpKind::kZero, tag, {}, {part});
    }
  }
  Add(OpKind::kSum, norm, {parts}, {total});
  AllReduce(norm, total, false);
  if (!spec_.update_at_once) clip();
  for (size_t i : order) {
    std::vector<BufferId> out = {ids_.master[i], ids_.moment1[i], ids_.moment2[i]};
    if (ids_.weight[i] != ids_.master[i]) out.push_back(ids_.weight[i]);
    Add(OpKind::kAdamW, {.name = parameters_[i].name, .phase = Phase::kOptimizer},
        {ids_.gradient[i], ids_.clip_state, ids_.scalars, ids_.master[i], ids_.moment1[i],
         ids_.moment2[i]},
        std::move(out), {parameters_[i].decay ? 1 : 0});
  }
  if (spec_.update_at_once) clip();
}

}  // namespace stretto
