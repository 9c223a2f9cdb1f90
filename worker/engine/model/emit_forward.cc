#include "worker/engine/model/emitter.h"

namespace stretto {

void Emitter::EmitForward() {
  StartUnit("forward");
  for (SliceState& slice : slices_) ForwardEmbedding(slice);
  for (int layer = 0; layer < model_.layers; ++layer) {
    for (SliceState& slice : slices_) ForwardAttention(slice, layer);
    for (SliceState& slice : slices_) ForwardMlp(slice, layer);
  }
  for (SliceState& slice : slices_) ForwardHead(slice);
}

void Emitter::ForwardEmbedding(SliceState& slice) {
  slice.x = Activation(slice, "x", 0, hidden_, spec_.dtype);
  const Tag tag = At(slice, "embed", -1, Phase::kForward);
  Add(OpKind::kEmbed, tag, {slice.tokens, W(kTokenEmbedding)}, {slice.x}, VocabAttributes());
  AllReduce(tag, slice.x);
  slice.partial = -1;
}

void Emitter::ForwardAttention(SliceState& slice, int layer) {
  const LayerParameters p = LayerParametersAt(layer);
  LayerActivations& act = slice.layers[static_cast<size_t>(layer)];
  const DType t = spec_.dtype;
  auto at = [&](const char* name) { return At(slice, name, layer, Phase::kForward); };

  if (layer == 0) {
    Add(OpKind::kAddPosition, At(slice, "position", -1, Phase::kForward),
        {W(kPositionEmbedding), slice.x}, {slice.x});
  } else {
    const int y = Activation(slice, "x", layer, hidden_, t);
    Add(OpKind::kBiasResidual, At(slice, "res2", layer - 1, Phase::kForward),
        {slice.partial, W(LayerParametersAt(layer - 1).fc2_b), slice.x}, {y});
    slice.x = y;
  }
  act.x = slice.x;
  act.y1 = Activation(slice, "y1", layer, hidden_, t);
  act.stats1 = Activation(slice, "stats1", layer, 2, DType::kF32);
  act.qkv = Activation(slice, "qkv", layer, 3 * heads_ * model_.head_dim(), t);
  act.context = Activation(slice, "context", layer, heads_ * model_.head_dim(), t);
  act.lse = Activation(slice, "lse", layer, heads_, DType::kF32);
  const int64_t scratch_elements =
      AttentionScratch({model_.sequence_length, heads_, model_.head_dim()});
  const int scratch =
      NewBuffer(step_.buffers[static_cast<size_t>(act.lse)].name + ".scratch", DType::kF32,
                {scratch_elements}, ArenaClass::kActivation, Binding::kSlot);
  slice.partial = Activation(slice, "proj", layer, hidden_, t);

  Add(OpKind::kLayerNorm, at("ln1"), {act.x, W(p.ln1_w), W(p.ln1_b)}, {act.y1, act.stats1});
  Add(OpKind::kGemm, at("qkv"), {act.y1, W(p.qkv_w), W(p.qkv_b)}, {act.qkv});
  Add(OpKind::kAttention, at("attention"), {act.qkv}, {act.context, act.lse, scratch},
      AttentionAttributes());
  Add(OpKind::kGemm, at("proj"), {act.context, W(p.proj_w)}, {slice.partial});
  AllReduce(at("proj"), slice.partial);
}

void Emitter::ForwardMlp(SliceState& slice, int layer) {
  const LayerParameters p = LayerParametersAt(layer);
  LayerActivations& act = slice.layers[static_cast<size_t>(layer)];
  const DType t = spec_.dtype;
  auto at = [&](const char* name) { return At(slice, name, layer, Phase::kForward); };

  act.x2 = Activation(slice, "x2", layer, hidden_, t);
  Add(OpKind::kBiasResidual, at("res1"), {slice.partial, W(p.proj_b), slice.x}, {act.x2});
  slice.x = act.x2;
  act.y2 = Activation(slice, "y2", layer, hidden_, t);
  act.stats2 = Activation(slice, "stats2", layer, 2, DType::kF32);
  act.u = Activation(slice, "u", layer, ffn_, t);
  act.a = Activation(slice, "a", layer, ffn_, t);
  slice.partial = Activation(slice, "fc2", layer, hidden_, t);

  Add(OpKind::kLayerNorm, at("ln2"), {act.x2, W(p.ln2_w), W(p.ln2_b)}, {act.y2, act.stats2});
  Add(OpKind::kGemm, at("fc1"), {act.y2, W(p.fc1_w), W(p.fc1_b)}, {act.u});
  Add(OpKind::kGelu, at("gelu"), {act.u}, {act.a});
  Add(OpKind::kGemm, at("fc2"), {act.a, W(p.fc2_w)}, {slice.partial});
  AllReduce(at("fc2"), slice.partial);
}

void Emitter::ForwardHead(SliceState& slice) {
  const int last = model_.layers - 1;
  const FinalNorm norm = FinalNormAt(model_.layers);
  const DType t = spec_.dtype;
  auto at = [&](const char* name) { return At(slice, name, -1, Phase::kForward); };

  slice.final_x = Activation(slice, "final_x", -1, hidden_, t);
  Add(OpKind::kBiasResidual, At(slice, "res2", last, Phase::kForward),
      {slice.partial, W(LayerParametersAt(last).fc2_b), slice.x}, {slice.final_x});
  slice.final_y = Activation(slice, "final_y", -1, hidden_, t);
  slice.final_stats = Activation(slice, "final_stats", -1, 2, DType::kF32);
  slice.logits = Activation(slice, "logits", -1, vocab_, t);
  slice.max = Activation(slice, "max", -1, 1, DType::kF32);
  slice.sums = Activation(slice, "sums", -1, 2, DType::kF32);

  Add(OpKind::kLayerNorm, at("final_norm"), {slice.final_x, W(norm.w), W(norm.b)},
      {slice.final_y, slice.final_stats});
  Add(OpKind::kGemm, at("head"), {slice.final_y, W(kTokenEmbedding)}, {slice.logits});
  Add(OpKind::kCrossEntropyMax, at("cross_entropy"), {slice.logits}, {slice.max},
      VocabAttributes());
  AllReduce(at("cross_entropy"), slice.max, OpKind::kAllReduceMax);
  Add(OpKind::kCrossEntropySum, at("cross_entropy"), {slice.logits, slice.max, slice.targets},
      {slice.sums}, VocabAttributes());
  AllReduce(at("cross_entropy"), slice.sums);
  Add(OpKind::kCrossEntropyLoss, at("cross_entropy"), {slice.sums}, {slice.losses});
}

}  // namespace stretto
