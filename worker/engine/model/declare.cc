// SPDX-License-Identifier: Apache-2.0

// Declares the buffers that several operations need from the start: parameters with their gradients
// and optimizer state, inputs, outputs, and the views of slices. Gradients that one collective adds
// up are views of one bucket. Every other buffer is declared by the operation that writes it first.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

std::string Emitter::BucketOf(const Parameter& parameter) const {
  if (SequenceParallel() && !parameter.sharded()) return kReplicatedBucket;
  // A layer's gradients become final at about the same time and are large enough to fill a link.
  if (spec_.dp_size > 1 && parameter.layer >= 0) return absl::StrCat("layers.", parameter.layer);
  return "";
}

void Emitter::DeclareBuckets() {
  std::vector<std::pair<std::string, int64_t>> counts;  // in the order of their first parameters
  for (const Parameter& parameter : parameters_) {
    const std::string name = BucketOf(parameter);
    if (name.empty()) continue;
    auto count = std::find_if(counts.begin(), counts.end(),
                              [&](const auto& known) { return known.first == name; });
    if (count == counts.end()) count = counts.insert(count, {name, 0});
    count->second += parameter.count();
  }
  for (const auto& [name, count] : counts) {
    buckets_[name] = {
        NewBuffer(absl::StrCat(name, ".grad"), DType::kF32, {count}, ArenaClass::kGradient)};
  }
}

void Emitter::DeclareParameters() {
  if (extent_ == Extent::kStep) DeclareBuckets();
  for (const Parameter& p : parameters_) {
    // Operations see stacked matrices as one matrix and stacked biases as one vector.
    const std::vector<int64_t> used =
        p.decay ? std::vector<int64_t>{p.count() / p.extents.back(), p.extents.back()}
                : std::vector<int64_t>{p.count()};
    ids_.weight.push_back(NewBuffer(p.name, spec_.dtype, used, ArenaClass::kParameter));
    if (extent_ == Extent::kStep) DeclareTraining(p, ids_.weight.back());
  }
}

void Emitter::DeclareTraining(const Parameter& parameter, BufferId weight) {
  const std::vector<int64_t> used = step_.buffers[weight].shape;
  const auto add = [&](absl::string_view suffix, ArenaClass arena) {
    return NewBuffer(absl::StrCat(parameter.name, suffix), DType::kF32, used, arena);
  };
  // In f32 the weight is its own master; AdamW then writes it once.
  ids_.master.push_back(spec_.dtype == DType::kF32 ? weight
                                                   : add(".master", ArenaClass::kOptimizer));
  ids_.moment1.push_back(add(".m", ArenaClass::kOptimizer));
  ids_.moment2.push_back(add(".v", ArenaClass::kOptimizer));
  const auto bucket = buckets_.find(BucketOf(parameter));
  if (bucket == buckets_.end()) {
    ids_.gradient.push_back(add(".grad", ArenaClass::kGradient));
    return;
  }
  auto& [buffer, first] = bucket->second;
  ids_.gradient.push_back(View(buffer, absl::StrCat(parameter.name, ".grad"), first, used));
  first += parameter.count();
}

void Emitter::DeclareStep() {
  DeclareParameters();
  const int64_t b = spec_.micro_batch_size, s = model_.sequence_length;
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    return NewBuffer(name, DType::kI32, std::move(shape), ArenaClass::kInput, kPerMicroBatch);
  };
  if (stage_.embeds) ids_.tokens = input("tokens", {b, s});
  if (stage_.predicts) ids_.targets = input("targets", {b, s});
  ids_.keys = input("keys", {kKeyCount});
  if (stage_.predicts)
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
    const auto view = [&](BufferId of, absl::string_view name, std::vector<int64_t> shape) {
      return of < 0 ? of : View(of, absl::StrCat(name, ".s", i), first * s, std::move(shape));
    };
    slice.tokens = view(ids_.tokens, "tokens", {sequences, s});
    slice.targets = view(ids_.targets, "targets", {sequences, s});
    slice.losses = view(ids_.losses, "losses", {slice.rows});
    slice.layers.resize(model_.layers);
    first += sequences;
    slices_.push_back(std::move(slice));
  }
}

}  // namespace stretto
