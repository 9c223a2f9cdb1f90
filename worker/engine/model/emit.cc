#include "worker/engine/model/emit.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

Emitter::Emitter(const EngineSpec& spec, int tp_rank)
    : spec_(spec),
      model_(spec.model),
      tp_rank_(tp_rank),
      hidden_(model_.hidden),
      heads_(model_.heads / spec.tp_size),
      ffn_(model_.ffn_hidden / spec.tp_size),
      vocab_(model_.padded_vocab() / spec.tp_size),
      parameters_(ParametersOf(model_, spec.tp_size, tp_rank)) {
  step_.rank = tp_rank;
  step_.world_size = spec.tp_size;
  step_.micro_batches = spec.micro_batches;
  step_.slots = 1;
  Group tp{"tp", std::vector<int>(static_cast<size_t>(spec.tp_size))};
  std::iota(tp.ranks.begin(), tp.ranks.end(), 0);
  step_.groups = {std::move(tp)};
  step_.lanes = {{"serial", 0}};
}

int Emitter::NewBuffer(std::string name, DType dtype, std::vector<int64_t> shape, ArenaClass arena,
                       Binding binding) {
  step_.buffers.push_back({.name = std::move(name),
                           .dtype = dtype,
                           .shape = std::move(shape),
                           .arena = arena,
                           .binding = binding});
  return static_cast<int>(step_.buffers.size()) - 1;
}

int Emitter::View(int id, std::string name, int64_t first, std::vector<int64_t> shape) {
  Buffer view = step_.buffers[static_cast<size_t>(id)];
  view.name = std::move(name);
  view.shape = std::move(shape);
  view.alias = id;
  view.alias_offset = first;
  step_.buffers.push_back(std::move(view));
  return static_cast<int>(step_.buffers.size()) - 1;
}

int Emitter::Activation(const SliceState& slice, absl::string_view name, int layer, int64_t columns,
                        DType dtype) {
  const std::string full = layer < 0 ? absl::StrCat(name, ".s", slice.index)
                                     : absl::StrCat("L", layer, ".", name, ".s", slice.index);
  return NewBuffer(full, dtype, {slice.rows, columns}, ArenaClass::kActivation, Binding::kSlot);
}

void Emitter::StartUnit(std::string name) { step_.units.push_back({std::move(name), {}}); }

void Emitter::Add(OpKind kind, const Tag& tag, std::vector<int> in, std::vector<int> out,
                  std::vector<int64_t> attributes) {
  step_.units.back().ops.push_back({.kind = kind,
                                    .lane = 0,
                                    .tag = tag,
                                    .in = std::move(in),
                                    .out = std::move(out),
                                    .attributes = std::move(attributes),
                                    .waits = {}});
}

void Emitter::AllReduce(const Tag& tag, int buffer, OpKind kind) {
  if (spec_.tp_size > 1) Add(kind, tag, {buffer}, {buffer});
}

Tag Emitter::At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const {
  return {.layer = layer,
          .name = std::string(name),
          .phase = phase,
          .micro_batch = -1,
          .slice = slice.index};
}

std::vector<int64_t> Emitter::AttentionAttributes() const {
  return {model_.sequence_length, heads_, model_.head_dim()};
}

std::vector<int64_t> Emitter::VocabAttributes() const {
  return {vocab_ * tp_rank_, model_.vocab_size};
}

void Emitter::DeclareStep() {
  const bool f32 = spec_.dtype == DType::kF32;
  for (const Parameter& p : parameters_) {
    const std::vector<int64_t> shape =
        p.extents.size() == 1
            ? p.extents
            : std::vector<int64_t>{p.count() / p.extents.back(), p.extents.back()};
    // Stacked biases are one vector to the operations.
    const bool stacked_bias = !p.decay && p.extents.size() > 1;
    const std::vector<int64_t> used = stacked_bias ? std::vector<int64_t>{p.count()} : shape;
    auto add = [&](absl::string_view suffix, DType dtype, ArenaClass arena) {
      return NewBuffer(absl::StrCat(p.name, suffix), dtype, used, arena, Binding::kStep);
    };
    ids_.weight.push_back(add("", spec_.dtype, ArenaClass::kParameter));
    ids_.master.push_back(f32 ? ids_.weight.back()
                              : add(".master", DType::kF32, ArenaClass::kOptimizer));
    ids_.moment1.push_back(add(".m", DType::kF32, ArenaClass::kOptimizer));
    ids_.moment2.push_back(add(".v", DType::kF32, ArenaClass::kOptimizer));
    ids_.gradient.push_back(add(".grad", DType::kF32, ArenaClass::kGradient));
  }
  const int64_t b = spec_.micro_batch_size, s = model_.sequence_length;
  ids_.tokens = NewBuffer("tokens", DType::kI32, {b, s}, ArenaClass::kInput, Binding::kMicroBatch);
  ids_.targets =
      NewBuffer("targets", DType::kI32, {b, s}, ArenaClass::kInput, Binding::kMicroBatch);
  ids_.losses =
      NewBuffer("losses", DType::kF32, {b * s}, ArenaClass::kOutput, Binding::kMicroBatch);
  ids_.scalars =
      NewBuffer("scalars", DType::kF32, {kScalarCount}, ArenaClass::kInput, Binding::kStep);
  ids_.clip_state =
      NewBuffer("clip_state", DType::kF32, {kClipStateCount}, ArenaClass::kOutput, Binding::kStep);
  DeclareSlices();
}

void Emitter::DeclareSlices() {
  int64_t first = 0;  // sequence
  const int64_t s = model_.sequence_length;
  for (size_t i = 0; i < spec_.schedule.slices.size(); ++i) {
    const int64_t sequences = spec_.schedule.slices[i];
    SliceState slice;
    slice.index = static_cast<int>(i);
    slice.rows = sequences * s;
    slice.tokens = View(ids_.tokens, absl::StrCat("tokens.s", i), first * s, {sequences, s});
    slice.targets = View(ids_.targets, absl::StrCat("targets.s", i), first * s, {sequences, s});
    slice.losses = View(ids_.losses, absl::StrCat("losses.s", i), first * s, {slice.rows});
    slice.layers.resize(static_cast<size_t>(model_.layers));
    first += sequences;
    slices_.push_back(std::move(slice));
  }
}

void Emitter::EmitBegin() {
  StartUnit("begin");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Add(OpKind::kZero, {.name = parameters_[i].name, .phase = Phase::kOptimizer}, {},
        {ids_.gradient[i]});
  }
}

Emitted Emitter::Finish() {
  // begin, then forward and backward of each micro-batch, then the optimizer.
  step_.instances.push_back({.unit = 0, .micro_batch = -1, .waits = {}});
  for (int mb = 0; mb < step_.micro_batches; ++mb) {
    step_.instances.push_back({.unit = 1, .micro_batch = mb, .waits = {}});
    step_.instances.push_back({.unit = 2, .micro_batch = mb, .waits = {}});
  }
  step_.instances.push_back({.unit = 3, .micro_batch = -1, .waits = {}});
  return {std::move(step_), std::move(ids_)};
}

absl::StatusOr<Emitted> Emit(const EngineSpec& spec, int tp_rank) {
  RETURN_IF_ERROR(Validate(spec));
  STRETTO_CHECK(tp_rank >= 0 && tp_rank < spec.tp_size);
  Emitter emitter(spec, tp_rank);
  emitter.DeclareStep();
  emitter.EmitBegin();
  emitter.EmitForward();
  emitter.EmitBackward();
  emitter.EmitOptimizer();
  return emitter.Finish();
}

}  // namespace stretto
