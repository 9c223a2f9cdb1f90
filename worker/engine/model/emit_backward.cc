// SPDX-License-Identifier: Apache-2.0

// Backward, part by part from the head to the embedding and, within a part, slice by slice. Each
// part computes the gradient of its input from that of its output (dgrad), and adds the gradients
// of its parameters (wgrad) as separate operations, so that later passes can move them.

#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

void Emitter::EmitBackward() {
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    chunk_ = *chunk;
    for (SliceState& slice : slices_) BackwardBegin(slice);
    for (int layer = chunk->end_layer - 1; layer >= chunk->first_layer; --layer) {
      for (SliceState& slice : slices_) BackwardMlp(slice, layer);
      for (SliceState& slice : slices_) BackwardAttention(slice, layer);
    }
    for (SliceState& slice : slices_) BackwardEnd(slice);
  }
}

void Emitter::BackwardBegin(SliceState& slice) {
  if (chunk_.predicts) return BackwardHead(slice);
  slice.d = Receive(slice, chunk_.end_layer, Phase::kBackward);
}

void Emitter::BackwardEnd(SliceState& slice) {
  const int first = chunk_.first_layer;
  const LayerParameters& p = index_.layers[first];
  const LayerActivations& act = slice.layers[first];
  BackwardNorm(slice, "ln1", first, act.x, act.stats1, p.ln1_w, p.ln1_b);
  if (chunk_.embeds) return BackwardEmbedding(slice);
  Send(slice, first, Phase::kBackward, slice.d);
}

void Emitter::Wgrad(const Tag& tag, BufferId dy, BufferId x, BufferId gradient) {
  Add(OpKind::kGemmWgrad, tag, {dy, x, gradient}, {gradient});
}

void Emitter::BiasGrad(const Tag& tag, BufferId dy, int b) {
  if (b >= 0) Add(OpKind::kBiasGrad, tag, {dy, G(b)}, {G(b)});
}

void Emitter::BackwardNorm(SliceState& slice, absl::string_view name, int layer, BufferId x,
                           BufferId stats, int w, int b) {
  const Tag tag = At(slice, name, layer, Phase::kBackward);
  const BufferId dx = Own(slice, absl::StrCat("d_", name), layer);
  BufferList in = {slice.reduced, x, W(w), stats};
  // There is no gradient of the residual stream above the final norm yet.
  if (slice.d >= 0) in.push_back(slice.d);
  switch (features_.norm) {
    case NormKind::kLayerNorm:
      Add(OpKind::kLayerNormDgrad, tag, std::move(in), {dx});
      Add(OpKind::kLayerNormWgrad, tag, {slice.reduced, x, stats, G(w), G(b)}, {G(w), G(b)});
      break;
    case NormKind::kRmsNorm:
      Add(OpKind::kRmsNormDgrad, tag, std::move(in), {dx});
      Add(OpKind::kRmsNormWgrad, tag, {slice.reduced, x, stats, G(w)}, {G(w)});
      break;
  }
  slice.d = dx;
}

BufferId Emitter::BranchGrad(const SliceState& slice, absl::string_view name, int layer,
                             int place) {
  if (drop_threshold_ == 0) return slice.d;
  const BufferId d = Own(slice, absl::StrCat("d_", name), layer);
  Add(OpKind::kDropout, At(slice, name, layer, Phase::kBackward), {slice.d, ids_.keys}, {d},
      DropAttributes(layer, place, slice.own_first));
  return d;
}

void Emitter::AddPositionGrad(const SliceState& slice, const Tag& tag, BufferId d) {
  switch (features_.positions) {
    case PositionKind::kLearned:
      Add(OpKind::kPositionGrad, tag, {d, G(index_.position_embedding)},
          {G(index_.position_embedding)}, {slice.own_first});
      return;
    case PositionKind::kRotary:
      return;
  }
}

void Emitter::BackwardHead(SliceState& slice) {
  const Tag loss = At(slice, "loss", -1, Phase::kBackward);
  const Tag head = At(slice, "head", -1, Phase::kBackward);
  // The gradient of the logits replaces them in place: nothing reads the logits afterwards.
  slice.d = -1;
  Add(OpKind::kCrossEntropyGrad, loss,
      {slice.max, slice.sums, slice.targets, ids_.scalars, slice.logits}, {slice.logits},
      VocabAttributes());
  Wgrad(head, slice.logits, slice.final_y, HeadGradient());
  slice.reduced =
      ReducedProduct(OpKind::kGemmDgrad, slice, head, slice.logits, W(index_.head), "d_y_final");
}

void Emitter::BackwardMlp(SliceState& slice, int layer) {
  // The norm that reads this layer's output: the next layer's first norm, or the final one. Behind
  // the last layer of a chunk it belongs to the next chunk.
  if (layer == model_.layers - 1) {
    BackwardNorm(slice, "final_norm", -1, slice.final_x, slice.final_stats, index_.final_w,
                 index_.final_b);
  } else if (layer + 1 < chunk_.end_layer) {
    const LayerActivations& above = slice.layers[layer + 1];
    const LayerParameters& q = index_.layers[layer + 1];
    BackwardNorm(slice, "ln1", layer + 1, above.x, above.stats1, q.ln1_w, q.ln1_b);
  }
  const BufferId own = BranchGrad(slice, "res2", layer, 2);
  const BufferId d = Gather(slice, At(slice, "res2", layer, Phase::kBackward), own, "d_fc2");
  switch (features_.mlp) {
    case MlpKind::kDense:
      return BackwardDense(slice, layer, own, d);
  }
}

void Emitter::BackwardDense(SliceState& slice, int layer, BufferId own, BufferId d) {
  const LayerParameters& p = index_.layers[layer];
  const LayerActivations& act = slice.layers[layer];
  const auto at = [&](const char* name) { return At(slice, name, layer, Phase::kBackward); };

  const BufferId da = Rows(slice, "d_a", layer, ffn_);
  const BufferId du = Rows(slice, "d_u", layer, UpColumns());
  Add(OpKind::kGemmDgrad, at("fc2"), {d, W(p.fc2_w)}, {da});
  // A replicated bias sums this rank's own rows. With sequence parallelism the optimizer adds the
  // sums of all ranks; otherwise every rank has all rows.
  Wgrad(at("fc2"), d, act.a, G(p.fc2_w));
  BiasGrad(at("fc2"), own, p.fc2_b);
  Add(OpsOf(features_.activation).backward, at("act"), {act.u, da}, {du});
  Wgrad(at("fc1"), du, act.y2, G(p.fc1_w));
  BiasGrad(at("fc1"), du, p.fc1_b);
  slice.reduced = ReducedProduct(OpKind::kGemmDgrad, slice, at("fc1"), du, W(p.fc1_w), "d_y2");
}

void Emitter::BackwardAttention(SliceState& slice, int layer) {
  const LayerParameters& p = index_.layers[layer];
  const LayerActivations& act = slice.layers[layer];
  const auto at = [&](const char* name) { return At(slice, name, layer, Phase::kBackward); };

  BackwardNorm(slice, "ln2", layer, act.x2, act.stats2, p.ln2_w, p.ln2_b);
  const BufferId own = BranchGrad(slice, "res1", layer, 1);
  const BufferId d = Gather(slice, at("res1"), own, "d_proj");
  const BufferId dcontext = Rows(slice, "d_context", layer, attention_.context_columns());
  const BufferId dqkv = Rows(slice, "d_qkv", layer, attention_.qkv_columns());
  Add(OpKind::kGemmDgrad, at("proj"), {d, W(p.proj_w)}, {dcontext});
  Wgrad(at("proj"), d, act.context, G(p.proj_w));
  BiasGrad(at("proj"), own, p.proj_b);
  switch (features_.attention) {
    case AttentionKind::kCausal:
      Add(OpKind::kAttentionGrad, at("attention"),
          WithDocuments(slice, {dcontext, act.qkv, act.context, act.lse}),
          {dqkv, Scratch(slice, "d_attention.scratch", layer, LibraryElements())},
          AttentionGradAttributes(slice, layer));
      break;
  }
  // The gradient is rotated back, because the weight gradient needs that of the product's output.
  TurnHeads(at("qkv"), dqkv, true);
  Wgrad(at("qkv"), dqkv, act.y1, G(p.qkv_w));
  BiasGrad(at("qkv"), dqkv, p.qkv_b);
  slice.reduced = ReducedProduct(OpKind::kGemmDgrad, slice, at("qkv"), dqkv, W(p.qkv_w), "d_y1");
}

void Emitter::BackwardEmbedding(SliceState& slice) {
  BufferId own = slice.d;
  if (drop_threshold_ > 0) {
    own = Own(slice, "d_embedded.own", -1);
    Add(OpKind::kDropout, At(slice, "position", -1, Phase::kBackward), {slice.d, ids_.keys}, {own},
        DropAttributes(-1, 0, slice.own_first));
  }
  const Tag tag = At(slice, "embed", -1, Phase::kBackward);
  const BufferId d = Gather(slice, tag, own, "d_embedded");
  Add(OpKind::kEmbedGrad, tag, {slice.tokens, d, G(index_.token_embedding)},
      {G(index_.token_embedding)}, VocabAttributes());
  AddPositionGrad(slice, At(slice, "position", -1, Phase::kBackward), own);
}

}  // namespace stretto
