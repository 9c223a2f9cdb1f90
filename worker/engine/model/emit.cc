// SPDX-License-Identifier: Apache-2.0

// The frame of emission: buffers, views and tags, the attributes that operations of one kind share,
// and the unit "begin". emit_forward.cc and emit_backward.cc emit the two halves of "micro_batch",
// emit_optimizer.cc the unit "optimizer".

#include "worker/engine/model/emit.h"

#include <algorithm>
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
      place_(PlaceOf(spec, rank)),
      tp_rank_(place_.tp_rank),
      tp_size_(TpSizeOf(spec, place_.stage)),
      chunks_(ChunksOf(spec, place_.stage)),
      extent_(extent),
      hidden_(model_.hidden),
      ffn_(model_.ffn_hidden / tp_size_),
      vocab_(model_.padded_vocab() / tp_size_),
      attention_({.sequence_length = model_.sequence_length,
                  .heads = model_.heads / tp_size_,
                  .kv_heads = model_.key_heads() / tp_size_,
                  .head_dim = model_.head_dim(),
                  .first_head = model_.heads / tp_size_ * tp_rank_.value()}),
      parameters_(ParametersOf(spec, rank)),
      buckets_(spec, place_.stage, parameters_),
      index_(IndexOf(parameters_, model_.layers)),
      // The threshold counts in units of 2^-32; evaluation drops nothing.
      drop_threshold_(extent == Extent::kForward ? 0
                                                 : std::llround(model_.dropout * 4294967296.0)) {
  step_.rank = rank;
  step_.world_size = spec.world_size();
  step_.micro_batches = spec.micro_batches;
  step_.groups = GroupsOf(spec, rank);
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

BufferId Emitter::Elements(BufferId id, ElementRange range) {
  if (range.count() == 0) return -1;
  if (range.count() == step_.buffers[id].count()) return id;
  return View(id, absl::StrCat(BufferName(id), ".at", range.begin), range.begin, {range.count()});
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

BufferId Emitter::Scratch(const SliceState& slice, absl::string_view name, int layer,
                          int64_t library) {
  AttentionShape shape = attention_;
  shape.library_scratch = library;
  return Activation(slice, name, layer, {AttentionScratch(shape, slice.rows)}, DType::kF32);
}

// Libraries compute in bf16, move packs of 16 bytes, would draw other dropout than our kernels, and
// are not asked about documents.
int64_t Emitter::LibraryElements() const {
  if (spec_.library_attention == LibraryAttention::kNone || spec_.dtype != DType::kBF16 ||
      drop_threshold_ > 0 || spec_.document_mask || attention_.head_dim % 8 != 0) {
    return 0;
  }
  return LibraryScratch(attention_, spec_.library_attention == LibraryAttention::kRepeatable);
}

void Emitter::StartUnit(std::string name) { step_.units.push_back({std::move(name), {}}); }

void Emitter::Add(OpKind kind, const Tag& tag, BufferList in, BufferList out,
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

void Emitter::AddCollective(OpKind kind, const Tag& tag, BufferId in, BufferId out, DType wire,
                            GroupId group) {
  Add(kind, tag, {in}, {out}, {static_cast<int64_t>(wire)});
  step_.units.back().ops.back().group = group;
}

Tag Emitter::At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const {
  return {.layer = layer,
          .name = std::string(name),
          .phase = phase,
          .micro_batch = 0,
          .slice = slice.index};
}

BufferList Emitter::WithDocuments(const SliceState& slice, BufferList in) const {
  in.push_back(ids_.keys);
  if (slice.documents >= 0) in.push_back(slice.documents);
  return in;
}

std::vector<int64_t> Emitter::AttentionAttributes(const SliceState& slice, int layer) const {
  std::vector<int64_t> attributes = {attention_.sequence_length, attention_.heads,
                                     attention_.kv_heads, attention_.head_dim,
                                     attention_.first_head};
  const std::vector<int64_t> drop = DropAttributes(layer, 0, slice.first);
  attributes.insert(attributes.end(), drop.begin(), drop.end());
  return attributes;
}

std::vector<int64_t> Emitter::AttentionGradAttributes(const SliceState& slice, int layer) const {
  std::vector<int64_t> attributes = AttentionAttributes(slice, layer);
  attributes.resize(InfoOf(OpKind::kAttentionGrad).attributes.size());
  attributes.back() = LibraryElements();
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

// At the begin of a step, each replica has the weights that it updated in the last one. They are
// gathered in the order in which forward reads them, and only their first reader waits for them, so
// the later ones arrive under the layers before them.
void Emitter::GatherWeights() {
  for (size_t b = 0; b < buckets_.all().size(); ++b) {
    const Bucket& bucket = buckets_.all()[b];
    if (!Shares(bucket)) continue;
    AddCollective(OpKind::kAllGather, {.name = bucket.name}, OwnPart(bucket, weight_buckets_[b]),
                  weight_buckets_[b], DType::kF32, FindGroup(step_.groups, kDpGroupName));
  }
}

void Emitter::EmitBegin() {
  StartUnit("begin");
  GatherWeights();
  if (extent_ == Extent::kForward) return;
  // Contributions to a gradient are added, so every gradient starts at zero.
  const auto zero = [&](const std::string& name, BufferId id) {
    Add(OpKind::kZero, {.name = name, .phase = Phase::kOptimizer}, {}, {id});
  };
  for (size_t i = 0; i < parameters_.size(); ++i) zero(parameters_[i].name, ids_.gradient[i]);
  if (head_gradient_ >= 0) zero("head.weight", head_gradient_);
  for (size_t b = 0; b < buckets_.all().size(); ++b) {
    const Bucket& bucket = buckets_.all()[b];
    if (!Shares(bucket)) continue;
    const int64_t padding = step_.buffers[gradient_buckets_[b]].count() - bucket.count;
    if (padding == 0) continue;
    const std::string name = absl::StrCat(bucket.name, ".padding");
    zero(name, View(gradient_buckets_[b], name, bucket.count, {padding}));
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
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const int tp = TpSizeOf(spec, stage);
    STRETTO_CHECK(model.key_heads() % tp == 0 && model.ffn_hidden % tp == 0);
    STRETTO_CHECK(model.padded_vocab() % tp == 0 || (stage > 0 && stage != HeadStageOf(spec)));
    STRETTO_CHECK(spec.dp_size % ReplicasOf(spec, stage) == 0);
  }
  STRETTO_CHECK(model.layers >= ChunkCount(spec));
  STRETTO_CHECK(spec.chunks_per_stage == 1 || spec.stages.empty());
  STRETTO_CHECK(ChunksOf(spec, HeadStageOf(spec)).back().end_layer == model.layers);
  STRETTO_CHECK(model.hidden % spec.schedule.splits == 0);
  STRETTO_CHECK(std::accumulate(slices.begin(), slices.end(), 0) == spec.micro_batch_size);
}

}  // namespace

Emitted Emit(const EngineSpec& spec, Rank rank, Extent extent) {
  STRETTO_CHECK(rank >= 0 && rank.value() < spec.world_size());
  CheckShares(spec);
  Emitter emitter(spec, rank, extent);
  emitter.DeclareStep();
  emitter.EmitBegin();
  emitter.StartUnit("micro_batch");
  emitter.EmitForward();
  if (extent == Extent::kStep) {
    emitter.EmitBackward();
    emitter.EmitOptimizer();
  }
  return emitter.Finish();
}

}  // namespace stretto
