// SPDX-License-Identifier: Apache-2.0

// The frame of emission: buffers, views and tags, the attributes that operations of one kind share,
// and the units "begin" and "optimizer" (emit_optimizer.cc). emit_forward.cc and emit_backward.cc
// emit the two halves of "micro_batch". A buffer that several operations need from the start is
// declared here; every other buffer is declared by the operation that writes it first.

#include "worker/engine/model/emit.h"

#include <cmath>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

ActivationOps OpsOf(ActivationKind activation) {
  switch (activation) {
    case ActivationKind::kGelu:
      return {OpKind::kGelu, OpKind::kGeluGrad};
    case ActivationKind::kSwiGlu:
      return {OpKind::kSwiGlu, OpKind::kSwiGluGrad};
  }
  STRETTO_CHECK(false);
}

Emitter::Emitter(const EngineSpec& spec, Rank rank, Extent extent)
    : spec_(spec),
      model_(spec.model),
      features_(model_.architecture),
      tp_rank_(TpRankOf(spec, rank)),
      extent_(extent),
      hidden_(model_.hidden),
      ffn_(model_.ffn_hidden / spec.tp_size),
      vocab_(model_.padded_vocab() / spec.tp_size),
      attention_({.sequence_length = model_.sequence_length,
                  .heads = model_.heads / spec.tp_size,
                  .kv_heads = model_.key_heads() / spec.tp_size,
                  .head_dim = model_.head_dim(),
                  .first_head = model_.heads / spec.tp_size * tp_rank_.value()}),
      parameters_(ParametersOf(model_, spec.tp_size, tp_rank_)),
      index_(IndexOf(parameters_, model_.layers)),
      // The threshold counts in units of 2^-32; evaluation drops nothing.
      drop_threshold_(extent == Extent::kForward ? 0
                                                 : std::llround(model_.dropout * 4294967296.0)) {
  step_.rank = rank;
  step_.world_size = spec.tp_size;
  step_.micro_batches = extent == Extent::kForward ? 1 : spec.micro_batches;
  Group tp{"tp", {}};
  for (Rank member : IdRange<Rank>(spec.tp_size)) tp.ranks.push_back(member);
  step_.groups = {std::move(tp)};
  // One lane carries everything until AssignLanesAndWaits.
  step_.lanes.push_back({"serial"});
}

BufferId Emitter::NewBuffer(std::string name, DType dtype, std::vector<int64_t> shape,
                            ArenaClass arena, int slots) {
  return step_.buffers.Add({.name = std::move(name),
                            .dtype = dtype,
                            .shape = std::move(shape),
                            .arena = arena,
                            .slots = slots});
}

BufferId Emitter::View(BufferId id, std::string name, int64_t first, std::vector<int64_t> shape) {
  Buffer view = step_.buffers[id];
  view.name = std::move(name);
  view.shape = std::move(shape);
  view.alias = id;
  view.alias_offset = first;
  return step_.buffers.Add(std::move(view));
}

BufferId Emitter::Activation(const SliceState& slice, absl::string_view name, int layer,
                             std::vector<int64_t> shape, DType dtype) {
  const std::string full = layer < 0 ? absl::StrCat(name, ".s", slice.index)
                                     : absl::StrCat("L", layer, ".", name, ".s", slice.index);
  return NewBuffer(full, dtype, std::move(shape), ArenaClass::kActivation);
}

BufferId Emitter::Rows(const SliceState& slice, absl::string_view name, int layer,
                       int64_t columns) {
  return Activation(slice, name, layer, {slice.rows, columns}, spec_.dtype);
}

BufferId Emitter::Own(const SliceState& slice, absl::string_view name, int layer) {
  return Activation(slice, name, layer, {slice.own_rows, hidden_}, spec_.dtype);
}

BufferId Emitter::Scratch(const SliceState& slice, absl::string_view name, int layer) {
  return Activation(slice, name, layer, {AttentionScratch(attention_, slice.rows)}, DType::kF32);
}

void Emitter::StartUnit(std::string name) { step_.units.push_back({std::move(name), {}}); }

void Emitter::Add(OpKind kind, const Tag& tag, std::vector<BufferId> in, std::vector<BufferId> out,
                  std::vector<int64_t> attributes) {
  // Attributes that an emitter does not name are trailing and 0.
  attributes.resize(InfoOf(kind).attributes.size());
  step_.units.back().ops.push_back({.kind = kind,
                                    .lane = 0,
                                    .tag = tag,
                                    .in = std::move(in),
                                    .out = std::move(out),
                                    .attributes = std::move(attributes),
                                    .waits = {}});
}

void Emitter::AddCollective(OpKind kind, const Tag& tag, BufferId in, BufferId out, DType wire) {
  Add(kind, tag, {in}, {out}, {static_cast<int64_t>(wire)});
  step_.units.back().ops.back().group = 0;
}

Tag Emitter::At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const {
  return {.layer = layer,
          .name = std::string(name),
          .phase = phase,
          .micro_batch = 0,
          .slice = slice.index};
}

std::vector<int64_t> Emitter::AttentionAttributes(const SliceState& slice, int layer) const {
  std::vector<int64_t> attributes = {attention_.sequence_length, attention_.heads,
                                     attention_.kv_heads, attention_.head_dim,
                                     attention_.first_head};
  const std::vector<int64_t> drop = DropAttributes(layer, 0, slice.first);
  attributes.insert(attributes.end(), drop.begin(), drop.end());
  return attributes;
}

std::vector<int64_t> Emitter::RotaryAttributes(bool inverse) const {
  const RotaryScaling& scaling = model_.rotary_scaling;
  std::vector<int64_t> attributes = {
      attention_.sequence_length, attention_.heads,   attention_.kv_heads, attention_.head_dim,
      attention_.first_head,      model_.rotary_base, inverse ? 1 : 0};
  const auto append = [&](std::initializer_list<int64_t> more) {
    attributes.insert(attributes.end(), more);
  };
  switch (scaling.kind) {
    case RotaryScaling::Kind::kNone:
      break;
    case RotaryScaling::Kind::kLinear:
      append({static_cast<int64_t>(scaling.kind), RealAttribute(scaling.factor)});
      break;
    case RotaryScaling::Kind::kLlama3:
      append({static_cast<int64_t>(scaling.kind), RealAttribute(scaling.factor),
              RealAttribute(scaling.low_frequency_factor),
              RealAttribute(scaling.high_frequency_factor), scaling.original_sequence_length});
      break;
  }
  return attributes;
}

std::vector<int64_t> Emitter::NormAttributes() const {
  // 0 stands for the default epsilon, so programs with the default print no attribute.
  if (static_cast<float>(model_.norm_epsilon) == kNormEpsilon) return {};
  return {RealAttribute(model_.norm_epsilon)};
}

std::vector<int64_t> Emitter::VocabAttributes() const {
  // The first row of the vocabulary that this rank holds, and the size without padding.
  return {vocab_ * tp_rank_.value(), model_.vocab_size};
}

std::vector<int64_t> Emitter::DropAttributes(int layer, int place, int64_t first) const {
  if (drop_threshold_ == 0) return {};
  // Site 0 is the embedding; each layer has three sites. `first` makes the draws a function of the
  // global token, so that every slicing draws the same ones.
  return {drop_threshold_, layer < 0 ? 0 : 1 + 3 * layer + place, first};
}

void Emitter::DeclareParameters() {
  if (extent_ == Extent::kStep && SequenceParallel()) {
    // The gradients of replicated parameters are adjacent, so that one all-reduce adds them up.
    int64_t total = 0;
    for (const Parameter& p : parameters_) total += p.sharded() ? 0 : p.count();
    replicated_gradients_ =
        NewBuffer("replicated.grad", DType::kF32, {total}, ArenaClass::kGradient);
  }
  int64_t replicated = 0;
  for (const Parameter& p : parameters_) {
    // Operations see stacked matrices as one matrix and stacked biases as one vector.
    const std::vector<int64_t> used =
        p.decay ? std::vector<int64_t>{p.count() / p.extents.back(), p.extents.back()}
                : std::vector<int64_t>{p.count()};
    ids_.weight.push_back(NewBuffer(p.name, spec_.dtype, used, ArenaClass::kParameter));
    if (extent_ == Extent::kStep) DeclareTraining(p, ids_.weight.back(), &replicated);
  }
}

void Emitter::DeclareTraining(const Parameter& parameter, BufferId weight, int64_t* replicated) {
  const std::vector<int64_t> used = step_.buffers[weight].shape;
  const auto add = [&](absl::string_view suffix, ArenaClass arena) {
    return NewBuffer(absl::StrCat(parameter.name, suffix), DType::kF32, used, arena);
  };
  // In f32 the weight is its own master; AdamW then writes it once.
  ids_.master.push_back(spec_.dtype == DType::kF32 ? weight
                                                   : add(".master", ArenaClass::kOptimizer));
  ids_.moment1.push_back(add(".m", ArenaClass::kOptimizer));
  ids_.moment2.push_back(add(".v", ArenaClass::kOptimizer));
  if (SequenceParallel() && !parameter.sharded()) {
    ids_.gradient.push_back(
        View(replicated_gradients_, absl::StrCat(parameter.name, ".grad"), *replicated, used));
    *replicated += parameter.count();
  } else {
    ids_.gradient.push_back(add(".grad", ArenaClass::kGradient));
  }
}

void Emitter::DeclareStep() {
  DeclareParameters();
  const int64_t b = spec_.micro_batch_size, s = model_.sequence_length;
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    return NewBuffer(name, DType::kI32, std::move(shape), ArenaClass::kInput, kPerMicroBatch);
  };
  ids_.tokens = input("tokens", {b, s});
  ids_.targets = input("targets", {b, s});
  ids_.keys = input("keys", {kKeyCount});
  ids_.losses = NewBuffer("losses", DType::kF32, {b * s}, ArenaClass::kOutput, kPerMicroBatch);
  if (extent_ == Extent::kStep) {
    ids_.scalars = NewBuffer("scalars", DType::kF32, {kScalarCount}, ArenaClass::kInput);
    ids_.clip_state = NewBuffer("clip_state", DType::kF32, {kClipStateCount}, ArenaClass::kOutput);
  }
  DeclareSlices();
}

void Emitter::DeclareSlices() {
  int64_t first = 0;  // sequence
  const int64_t s = model_.sequence_length;
  for (int i = 0; i < std::ssize(spec_.schedule.slices); ++i) {
    const int64_t sequences = spec_.schedule.slices[i];
    SliceState slice;
    slice.index = i;
    slice.rows = sequences * s;
    slice.first = first * s;
    slice.own_rows = SequenceParallel() ? slice.rows / spec_.tp_size : slice.rows;
    slice.own_first = slice.first + (SequenceParallel() ? slice.own_rows * tp_rank_.value() : 0);
    slice.tokens = View(ids_.tokens, absl::StrCat("tokens.s", i), first * s, {sequences, s});
    slice.targets = View(ids_.targets, absl::StrCat("targets.s", i), first * s, {sequences, s});
    slice.losses = View(ids_.losses, absl::StrCat("losses.s", i), first * s, {slice.rows});
    slice.layers.resize(model_.layers);
    first += sequences;
    slices_.push_back(std::move(slice));
  }
}

void Emitter::EmitBegin() {
  // Contributions to a gradient are added, so every gradient starts at zero.
  StartUnit("begin");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Add(OpKind::kZero, {.name = parameters_[i].name, .phase = Phase::kOptimizer}, {},
        {ids_.gradient[i]});
  }
}

Emitted Emitter::Finish() {
  for (UnitId unit : step_.units.ids()) {
    const bool repeats = step_.units[unit].name == "micro_batch";
    if (repeats) {
      step_.repeat = {.begin = step_.instances.next(),
                      .end = step_.instances.next() + step_.micro_batches};
    }
    for (int mb = 0; mb < (repeats ? step_.micro_batches : 1); ++mb) {
      step_.instances.push_back(
          {.unit = unit,
           .micro_batches = repeats ? std::vector<int>{mb} : std::vector<int>{},
           .waits = {}});
    }
  }
  return {std::move(step_), std::move(ids_)};
}

namespace {

// CHECKs what would otherwise emit a wrong program. The rules themselves are in proto/spec.
void CheckShares(const EngineSpec& spec) {
  const ModelSpec& model = spec.model;
  const std::vector<int>& slices = spec.schedule.slices;
  STRETTO_CHECK(model.heads % model.key_heads() == 0 && model.hidden % model.heads == 0);
  STRETTO_CHECK(model.key_heads() % spec.tp_size == 0 && model.ffn_hidden % spec.tp_size == 0);
  STRETTO_CHECK(model.padded_vocab() % spec.tp_size == 0);
  STRETTO_CHECK(model.hidden % spec.schedule.splits == 0);
  STRETTO_CHECK(std::accumulate(slices.begin(), slices.end(), 0) == spec.micro_batch_size);
}

}  // namespace

Emitted Emit(const EngineSpec& spec, Rank rank, Extent extent) {
  STRETTO_CHECK(rank >= 0 && rank.value() < spec.tp_size);
  CheckShares(spec);
  Emitter emitter(spec, rank, extent);
  emitter.DeclareStep();
  if (extent == Extent::kStep) emitter.EmitBegin();
  emitter.StartUnit("micro_batch");
  emitter.EmitForward();
  if (extent == Extent::kStep) {
    emitter.EmitBackward();
    emitter.EmitOptimizer();
  }
  return emitter.Finish();
}

}  // namespace stretto
