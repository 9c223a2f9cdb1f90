// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

// With sequence parallelism every rank has computed the gradients of replicated parameters from its
// own rows only, so one all-reduce adds them up. The gradient norm over all shards and AdamW
// follow. The norm counts each parameter once: shards on every rank, replicated parameters on rank
// 0 only.
void Emitter::EmitOptimizer() {
  StartUnit("optimizer");
  if (replicated_gradients_ >= 0) {
    AllReduce({.name = "replicated", .phase = Phase::kOptimizer}, replicated_gradients_, false);
  }
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
  for (size_t i = 0; i < parameters_.size(); ++i) {
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
  for (size_t i = 0; i < parameters_.size(); ++i) {
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
