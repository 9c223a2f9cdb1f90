#include "worker/engine/model/emitter.h"

namespace stretto {

void Emitter::EmitBackward() {
  StartUnit("backward");
  for (SliceState& slice : slices_) BackwardHead(slice);
  for (int layer = model_.layers - 1; layer >= 0; --layer) {
    for (SliceState& slice : slices_) BackwardMlp(slice, layer);
    for (SliceState& slice : slices_) BackwardAttention(slice, layer);
  }
  for (SliceState& slice : slices_) BackwardEmbedding(slice);
}

void Emitter::BackwardNorm(SliceState& slice, absl::string_view name, int layer, int x, int stats,
                           int w, int b) {
  const Tag tag = At(slice, name, layer, Phase::kBackward);
  const int dx =
      Activation(slice, std::string("d_") + std::string(name), layer, hidden_, spec_.dtype);
  std::vector<int> in = {slice.partial, x, W(w), stats};
  if (slice.d >= 0) in.push_back(slice.d);
  Add(OpKind::kLayerNormDgrad, tag, std::move(in), {dx});
  Add(OpKind::kLayerNormWgrad, tag, {slice.partial, x, stats, G(w), G(b)}, {G(w), G(b)});
  slice.d = dx;
}

void Emitter::BackwardHead(SliceState& slice) {
  const Tag loss = At(slice, "cross_entropy", -1, Phase::kBackward);
  const Tag head = At(slice, "head", -1, Phase::kBackward);
  slice.d = -1;
  slice.partial = Activation(slice, "d_head", -1, hidden_, spec_.dtype);
  Add(OpKind::kCrossEntropyGrad, loss,
      {slice.max, slice.sums, slice.targets, ids_.scalars, slice.logits}, {slice.logits},
      VocabAttributes());
  Add(OpKind::kGemmDgrad, head, {slice.logits, W(kTokenEmbedding)}, {slice.partial});
  Add(OpKind::kGemmWgrad, head, {slice.logits, slice.final_y, G(kTokenEmbedding)},
      {G(kTokenEmbedding)});
  AllReduce(head, slice.partial);
}

void Emitter::BackwardMlp(SliceState& slice, int layer) {
  const LayerParameters p = LayerParametersAt(layer);
  const LayerActivations& act = slice.layers[static_cast<size_t>(layer)];
  const DType t = spec_.dtype;
  auto at = [&](const char* name) { return At(slice, name, layer, Phase::kBackward); };

  // The norm that read this layer's output: the next layer's first, or the final one.
  if (layer == model_.layers - 1) {
    const FinalNorm norm = FinalNormAt(model_.layers);
    BackwardNorm(slice, "final_norm", -1, slice.final_x, slice.final_stats, norm.w, norm.b);
  } else {
    const LayerActivations& above = slice.layers[static_cast<size_t>(layer) + 1];
    const LayerParameters q = LayerParametersAt(layer + 1);
    BackwardNorm(slice, "ln1", layer + 1, above.x, above.stats1, q.ln1_w, q.ln1_b);
  }
  const int da = Activation(slice, "d_a", layer, ffn_, t);
  const int du = Activation(slice, "d_u", layer, ffn_, t);
  slice.partial = Activation(slice, "d_y2", layer, hidden_, t);
  Add(OpKind::kGemmDgrad, at("fc2"), {slice.d, W(p.fc2_w)}, {da});
  Add(OpKind::kGemmWgrad, at("fc2"), {slice.d, act.a, G(p.fc2_w)}, {G(p.fc2_w)});
  Add(OpKind::kBiasGrad, at("fc2"), {slice.d, G(p.fc2_b)}, {G(p.fc2_b)});
  Add(OpKind::kGeluGrad, at("gelu"), {act.u, da}, {du});
  Add(OpKind::kGemmDgrad, at("fc1"), {du, W(p.fc1_w)}, {slice.partial});
  Add(OpKind::kGemmWgrad, at("fc1"), {du, act.y2, G(p.fc1_w)}, {G(p.fc1_w)});
  Add(OpKind::kBiasGrad, at("fc1"), {du, G(p.fc1_b)}, {G(p.fc1_b)});
  AllReduce(at("fc1"), slice.partial);
}

void Emitter::BackwardAttention(SliceState& slice, int layer) {
  const LayerParameters p = LayerParametersAt(layer);
  const LayerActivations& act = slice.layers[static_cast<size_t>(layer)];
  const DType t = spec_.dtype;
  auto at = [&](const char* name) { return At(slice, name, layer, Phase::kBackward); };

  BackwardNorm(slice, "ln2", layer, act.x2, act.stats2, p.ln2_w, p.ln2_b);
  const int dcontext = Activation(slice, "d_context", layer, heads_ * model_.head_dim(), t);
  const int dqkv = Activation(slice, "d_qkv", layer, 3 * heads_ * model_.head_dim(), t);
  const int64_t scratch_elements =
      AttentionScratch({model_.sequence_length, heads_, model_.head_dim()});
  const int scratch =
      NewBuffer(step_.buffers[static_cast<size_t>(dqkv)].name + ".scratch", DType::kF32,
                {scratch_elements}, ArenaClass::kActivation, Binding::kSlot);
  slice.partial = Activation(slice, "d_y1", layer, hidden_, t);
  Add(OpKind::kGemmDgrad, at("proj"), {slice.d, W(p.proj_w)}, {dcontext});
  Add(OpKind::kGemmWgrad, at("proj"), {slice.d, act.context, G(p.proj_w)}, {G(p.proj_w)});
  Add(OpKind::kBiasGrad, at("proj"), {slice.d, G(p.proj_b)}, {G(p.proj_b)});
  Add(OpKind::kAttentionGrad, at("attention"), {dcontext, act.qkv, act.context, act.lse},
      {dqkv, scratch}, AttentionAttributes());
  Add(OpKind::kGemmDgrad, at("qkv"), {dqkv, W(p.qkv_w)}, {slice.partial});
  Add(OpKind::kGemmWgrad, at("qkv"), {dqkv, act.y1, G(p.qkv_w)}, {G(p.qkv_w)});
  Add(OpKind::kBiasGrad, at("qkv"), {dqkv, G(p.qkv_b)}, {G(p.qkv_b)});
  AllReduce(at("qkv"), slice.partial);
}

void Emitter::BackwardEmbedding(SliceState& slice) {
  const LayerParameters p = LayerParametersAt(0);
  const LayerActivations& act = slice.layers[0];
  BackwardNorm(slice, "ln1", 0, act.x, act.stats1, p.ln1_w, p.ln1_b);
  const Tag tag = At(slice, "embed", -1, Phase::kBackward);
  Add(OpKind::kEmbedGrad, tag, {slice.tokens, slice.d, G(kTokenEmbedding)}, {G(kTokenEmbedding)},
      VocabAttributes());
  Add(OpKind::kPositionGrad, At(slice, "position", -1, Phase::kBackward),
      {slice.d, G(kPositionEmbedding)}, {G(kPositionEmbedding)});
}

}  // namespace stretto
