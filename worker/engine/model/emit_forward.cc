// SPDX-License-Identifier: Apache-2.0

// Forward, part by part from the embedding to the loss and, within a part, slice by slice. A
// product whose weight is sharded by inputs leaves partial sums, which are reduced over the ranks
// before the residual is added: whole, or scattered over rows with sequence parallelism. A product
// whose weight is sharded by outputs needs all rows of its input, which sequence parallelism
// gathers first.

#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

void Emitter::AllReduce(const Tag& tag, BufferId buffer, bool travels_as_activation) {
  if (tp_size_ == 1) return;
  AddCollective(OpKind::kAllReduce, tag, buffer, buffer,
                travels_as_activation ? spec_.wire_dtype : DType::kF32);
}

BufferId Emitter::Gather(const SliceState& slice, const Tag& tag, BufferId own,
                         absl::string_view name) {
  if (!SequenceParallel()) return own;
  const BufferId all = Rows(slice, name, tag.layer, hidden_);
  AddCollective(OpKind::kAllGather, tag, own, all, spec_.wire_dtype);
  return all;
}

BufferId Emitter::Reduce(const SliceState& slice, const Tag& tag, BufferId partial,
                         absl::string_view name) {
  if (!SequenceParallel()) {
    AllReduce(tag, partial, true);
    return partial;
  }
  const BufferId own = Own(slice, name, tag.layer);
  AddCollective(OpKind::kReduceScatter, tag, partial, own, spec_.wire_dtype);
  return own;
}

BufferId Emitter::ReducedProduct(OpKind kind, const SliceState& slice, const Tag& tag, BufferId x,
                                 BufferId weight, absl::string_view name) {
  const int64_t pieces = spec_.schedule.splits, columns = hidden_ / pieces;
  const bool forward = kind == OpKind::kGemm;
  const std::string part = absl::StrCat(name, ".part");
  // With sequence parallelism the name is that of the reduced rows, and the product has another.
  const absl::string_view product = SequenceParallel() ? absl::string_view(part) : name;
  if (pieces == 1) {
    const BufferId partial =
        Activation(slice, product, tag.layer, {slice.rows, hidden_}, spec_.dtype);
    Add(kind, tag, {x, weight}, {partial});
    return Reduce(slice, tag, partial, name);
  }
  // Pieces are the first dimension, so each piece is contiguous and can be sent without a copy.
  const BufferId partial =
      Activation(slice, product, tag.layer, {pieces, slice.rows, columns}, spec_.dtype);
  const BufferId reduced =
      SequenceParallel()
          ? Activation(slice, name, tag.layer, {pieces, slice.own_rows, columns}, spec_.dtype)
          : partial;
  for (int piece = 0; piece < pieces; ++piece) {
    const std::string suffix = absl::StrCat(".c", piece);
    const BufferId out = View(partial, BufferName(partial) + suffix, piece * slice.rows * columns,
                              {slice.rows, columns});
    if (forward) {
      // Slices share the view of a piece of w's rows.
      const auto [rows, fresh] = weight_rows_.try_emplace({weight, piece});
      if (fresh) {
        const int64_t k = step_.buffers[weight].shape[1];
        rows->second = View(weight, BufferName(weight) + suffix, piece * columns * k, {columns, k});
      }
      Add(kind, tag, {x, rows->second}, {out});
    } else {
      Add(kind, tag, {x, weight}, {out}, {piece * columns});
    }
    if (!SequenceParallel()) {
      AllReduce(tag, out, true);
      continue;
    }
    const BufferId own = View(reduced, BufferName(reduced) + suffix,
                              piece * slice.own_rows * columns, {slice.own_rows, columns});
    AddCollective(OpKind::kReduceScatter, tag, out, own, spec_.wire_dtype);
  }
  return reduced;
}

BufferId Emitter::Norm(const SliceState& slice, absl::string_view name, int layer, BufferId x,
                       int w, int b, BufferId* stats) {
  const Tag tag = At(slice, name, layer, Phase::kForward);
  // "ln1" writes "y1".
  const std::string number(name.back() >= '0' && name.back() <= '9' ? name.substr(2) : "_final");
  const std::string y_name = absl::StrCat("y", number);
  const bool whole = !SequenceParallel();
  const BufferId y =
      whole ? Rows(slice, y_name, layer, hidden_) : Own(slice, absl::StrCat(y_name, ".own"), layer);
  // Own rows, because a norm is computed before its output is gathered.
  const auto declare_stats = [&](std::vector<int64_t> shape) {
    return Activation(slice, absl::StrCat("stats", number), layer, std::move(shape), DType::kF32);
  };
  switch (features_.norm) {
    case NormKind::kLayerNorm:
      *stats = declare_stats({slice.own_rows, 2});
      Add(OpKind::kLayerNorm, tag, {x, W(w), W(b)}, {y, *stats}, NormAttributes());
      break;
    case NormKind::kRmsNorm:
      *stats = declare_stats({slice.own_rows});
      Add(OpKind::kRmsNorm, tag, {x, W(w)}, {y, *stats}, NormAttributes());
      break;
  }
  return Gather(slice, tag, y, y_name);
}

BufferId Emitter::Residual(const SliceState& slice, absl::string_view name, absl::string_view out,
                           int layer, int bias, int place) {
  // The output of a layer is declared as the next layer's input.
  const bool next = name == "res2" && layer + 1 < model_.layers;
  const BufferId y = Own(slice, out, next ? layer + 1 : name == "res2" ? -1 : layer);
  BufferList in = {slice.reduced, slice.x, ids_.keys};
  if (bias >= 0) in.push_back(W(bias));
  Add(OpKind::kBiasResidual, At(slice, name, layer, Phase::kForward), std::move(in), {y},
      DropAttributes(layer, place, slice.own_first));
  return y;
}

void Emitter::AddPositions(const SliceState& slice, const Tag& tag) {
  switch (features_.positions) {
    case PositionKind::kLearned:
      // own_first selects the positions of this rank's rows.
      Add(OpKind::kAddPosition, tag, {W(index_.position_embedding), slice.x}, {slice.x},
          {slice.own_first});
      return;
    case PositionKind::kRotary:
      return;
  }
}

void Emitter::TurnHeads(const Tag& tag, BufferId qkv, bool inverse) {
  switch (features_.positions) {
    case PositionKind::kLearned:
      return;
    case PositionKind::kRotary:
      Add(OpKind::kRotary, tag, {qkv}, {qkv}, RotaryAttributes(inverse));
      return;
  }
}

void Emitter::EmitForward() {
  for (const Chunk& chunk : chunks_) {
    chunk_ = chunk;
    for (SliceState& slice : slices_) ForwardBegin(slice);
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer) {
      for (SliceState& slice : slices_) ForwardAttention(slice, layer);
      for (SliceState& slice : slices_) ForwardMlp(slice, layer);
    }
    for (SliceState& slice : slices_) ForwardEnd(slice);
  }
}

void Emitter::ForwardBegin(SliceState& slice) {
  if (chunk_.embeds) return ForwardEmbedding(slice);
  slice.x = Receive(slice, chunk_.first_layer, Phase::kForward);
}

void Emitter::ForwardEnd(SliceState& slice) {
  if (chunk_.predicts) return ForwardHead(slice);
  const int last = chunk_.end_layer - 1;
  slice.x = Residual(slice, "res2", "x", last, index_.layers[last].fc2_b, 2);
  Send(slice, chunk_.end_layer, Phase::kForward, slice.x);
}

void Emitter::ForwardEmbedding(SliceState& slice) {
  const Tag tag = At(slice, "embed", -1, Phase::kForward);
  const BufferId partial = Activation(slice, "embedded", -1, {slice.rows, hidden_}, spec_.dtype);
  Add(OpKind::kEmbed, tag, {slice.tokens, W(index_.token_embedding)}, {partial}, VocabAttributes());
  slice.x = Reduce(slice, tag, partial, "embedded.own");
}

void Emitter::ForwardAttention(SliceState& slice, int layer) {
  const LayerParameters& p = index_.layers[layer];
  LayerActivations& act = slice.layers[layer];
  const auto at = [&](const char* name) { return At(slice, name, layer, Phase::kForward); };

  if (layer == 0) {
    const Tag position = At(slice, "position", -1, Phase::kForward);
    AddPositions(slice, position);
    if (drop_threshold_ > 0) {
      const BufferId dropped = Own(slice, "x", 0);
      Add(OpKind::kDropout, position, {slice.x, ids_.keys}, {dropped},
          DropAttributes(-1, 0, slice.own_first));
      slice.x = dropped;
    }
  } else if (layer > chunk_.first_layer) {
    slice.x = Residual(slice, "res2", "x", layer - 1, index_.layers[layer - 1].fc2_b, 2);
    // The residual of the layer before runs here, so that it follows that layer's last collective.
  }
  act.x = slice.x;
  act.y1 = Norm(slice, "ln1", layer, act.x, p.ln1_w, p.ln1_b, &act.stats1);
  act.qkv = Rows(slice, "qkv", layer, attention_.qkv_columns());
  BufferList in = {act.y1, W(p.qkv_w)};
  if (p.qkv_b >= 0) in.push_back(W(p.qkv_b));
  Add(OpKind::kGemm, at("qkv"), std::move(in), {act.qkv});
  TurnHeads(at("qkv"), act.qkv, false);
  act.context = Rows(slice, "context", layer, attention_.context_columns());
  act.lse = Activation(
      slice, "lse", layer,
      {slice.rows / attention_.sequence_length * attention_.heads, attention_.sequence_length},
      DType::kF32);
  switch (features_.attention) {
    case AttentionKind::kCausal:
      Add(OpKind::kAttention, at("attention"), WithDocuments(slice, {act.qkv}),
          {act.context, act.lse, Scratch(slice, "attention.scratch", layer)},
          AttentionAttributes(slice, layer));
      break;
  }
  slice.reduced =
      ReducedProduct(OpKind::kGemm, slice, at("proj"), act.context, W(p.proj_w), "proj");
}

void Emitter::ForwardMlp(SliceState& slice, int layer) {
  const LayerParameters& p = index_.layers[layer];
  LayerActivations& act = slice.layers[layer];

  act.x2 = Residual(slice, "res1", "x2", layer, p.proj_b, 1);
  slice.x = act.x2;
  act.y2 = Norm(slice, "ln2", layer, act.x2, p.ln2_w, p.ln2_b, &act.stats2);
  switch (features_.mlp) {
    case MlpKind::kDense:
      return ForwardDense(slice, layer);
  }
}

void Emitter::ForwardDense(SliceState& slice, int layer) {
  const LayerParameters& p = index_.layers[layer];
  LayerActivations& act = slice.layers[layer];
  const auto at = [&](const char* name) { return At(slice, name, layer, Phase::kForward); };

  act.u = Rows(slice, "u", layer, UpColumns());
  act.a = Rows(slice, "a", layer, ffn_);
  BufferList in = {act.y2, W(p.fc1_w)};
  if (p.fc1_b >= 0) in.push_back(W(p.fc1_b));
  Add(OpKind::kGemm, at("fc1"), std::move(in), {act.u});
  Add(OpsOf(features_.activation).forward, at("act"), {act.u}, {act.a});
  slice.reduced = ReducedProduct(OpKind::kGemm, slice, at("fc2"), act.a, W(p.fc2_w), "fc2");
}

void Emitter::ForwardHead(SliceState& slice) {
  const int last = model_.layers - 1;
  const auto at = [&](const char* name) { return At(slice, name, -1, Phase::kForward); };

  slice.final_x = Residual(slice, "res2", "final_x", last, index_.layers[last].fc2_b, 2);
  slice.final_y = Norm(slice, "final_norm", -1, slice.final_x, index_.final_w, index_.final_b,
                       &slice.final_stats);
  slice.logits = Rows(slice, "logits", -1, vocab_);
  // The softmax spans the vocabulary of all ranks, so they exchange the maximum, then the sum of
  // exponentials and the target's logit, which is 0 on all ranks but one.
  slice.max = Activation(slice, "max", -1, {slice.rows, 1}, DType::kF32);
  slice.sums = Activation(slice, "sums", -1, {slice.rows, 2}, DType::kF32);

  Add(OpKind::kGemm, at("head"), {slice.final_y, W(index_.head)}, {slice.logits});
  Add(OpKind::kCrossEntropyMax, at("max"), {slice.logits}, {slice.max}, VocabAttributes());
  if (tp_size_ > 1) {
    AddCollective(OpKind::kAllReduceMax, at("max"), slice.max, slice.max, DType::kF32);
  }
  Add(OpKind::kCrossEntropySum, at("sum"), {slice.logits, slice.max, slice.targets}, {slice.sums},
      VocabAttributes());
  AllReduce(at("sum"), slice.sums, false);
  Add(OpKind::kCrossEntropyLoss, at("loss"), {slice.sums}, {slice.losses});
}

}  // namespace stretto
