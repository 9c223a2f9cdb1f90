// SPDX-License-Identifier: Apache-2.0

// Declares the buffers that several operations need from the start: parameters with their gradients
// and optimizer state, inputs, outputs, and the views of slices. Gradients that one collective adds
// up, and with ZeRO weights that one collective spreads, are views of one bucket. Every other
// buffer is declared by the operation that writes it first.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

BufferId Emitter::DeclareBucket(const Bucket& bucket, absl::string_view suffix, DType dtype,
                                ArenaClass arena) {
  const bool shares = Shares(bucket);
  if (!shares && (bucket.parameters.size() == 1 || arena == ArenaClass::kParameter)) return -1;
  const int64_t count = shares ? bucket.parts * bucket.part_count() : bucket.count;
  // The only parameter of a bucket has its name.
  const absl::string_view whole = bucket.parameters.size() == 1 ? ".bucket" : "";
  return NewBuffer(absl::StrCat(bucket.name, whole, suffix), dtype, {count}, arena);
}

BufferId Emitter::DeclareTensor(size_t parameter, absl::string_view suffix, DType dtype,
                                ArenaClass arena) {
  const Parameter& p = parameters_[parameter];
  std::string name = absl::StrCat(p.name, suffix);
  // Operations see stacked matrices as one matrix and stacked biases as one vector.
  std::vector<int64_t> shape = {p.count()};
  if (p.decay) shape = {p.count() / p.extents.back(), p.extents.back()};
  const BufferId bucket =
      (arena == ArenaClass::kGradient ? gradient_buckets_
                                      : weight_buckets_)[buckets_.NumberOf(parameter)];
  if (bucket < 0) return NewBuffer(std::move(name), dtype, std::move(shape), arena);
  return View(bucket, std::move(name), buckets_.FirstOf(parameter), std::move(shape));
}

void Emitter::DeclareParameters() {
  const bool trains = extent_ == Extent::kStep;
  for (const Bucket& bucket : buckets_.all()) {
    weight_buckets_.push_back(DeclareBucket(bucket, "", spec_.dtype, ArenaClass::kParameter));
    if (!trains) continue;
    gradient_buckets_.push_back(DeclareBucket(bucket, ".grad", DType::kF32, ArenaClass::kGradient));
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    ids_.weight.push_back(DeclareTensor(i, "", spec_.dtype, ArenaClass::kParameter));
    if (trains) DeclareTraining(i);
  }
  if (trains && TiedEndsMeet()) {
    head_gradient_ =
        NewBuffer("head.weight.grad", DType::kF32, step_.buffers[G(index_.token_embedding)].shape,
                  ArenaClass::kGradient);
  }
}

void Emitter::DeclareTraining(size_t parameter) {
  const Parameter& p = parameters_[parameter];
  const BufferId weight = ids_.weight.back();
  const ElementRange updated = buckets_.UpdatedBy(place_.replica, parameter);
  const BufferId weight_part = Elements(weight, updated);
  const auto add = [&](absl::string_view suffix) -> BufferId {
    if (weight_part < 0) return -1;
    return NewBuffer(absl::StrCat(p.name, suffix), DType::kF32, step_.buffers[weight_part].shape,
                     ArenaClass::kOptimizer);
  };
  ids_.updated.push_back(updated);
  ids_.weight_part.push_back(weight_part);
  // In f32 the weight is its own master; AdamW then writes it once.
  ids_.master.push_back(spec_.dtype == DType::kF32 ? weight_part : add(".master"));
  ids_.moment1.push_back(add(".m"));
  ids_.moment2.push_back(add(".v"));
  ids_.gradient.push_back(DeclareTensor(parameter, ".grad", DType::kF32, ArenaClass::kGradient));
  ids_.gradient_part.push_back(Elements(ids_.gradient.back(), updated));
}

BufferId Emitter::GradientsOf(size_t bucket) const {
  const BufferId memory = gradient_buckets_[bucket];
  return memory >= 0 ? memory : G(static_cast<int>(buckets_.all()[bucket].parameters.front()));
}

BufferId Emitter::OwnPart(const Bucket& bucket, BufferId whole) {
  const int64_t count = bucket.part_count();
  return View(whole, absl::StrCat(BufferName(whole), ".part"), place_.replica * count, {count});
}

void Emitter::DeclareStep() {
  DeclareParameters();
  const int64_t b = SequencesOf(spec_, place_.stage), s = model_.sequence_length;
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    return NewBuffer(name, DType::kI32, std::move(shape), ArenaClass::kInput, kPerMicroBatch);
  };
  if (Embeds()) ids_.tokens = input("tokens", {b, s});
  if (Predicts()) ids_.targets = input("targets", {b, s});
  ids_.keys = input("keys", {kKeyCount});
  if (spec_.document_mask) ids_.documents = input("documents", {b, s});
  if (Predicts())
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
  for (const int64_t sequences : SlicesOf(spec_, place_.stage)) {
    const int i = static_cast<int>(slices_.size());
    SliceState slice;
    slice.index = i;
    slice.rows = sequences * s;
    slice.first = first * s;
    slice.own_rows = SequenceParallel() ? slice.rows / tp_size_ : slice.rows;
    slice.own_first = slice.first + (SequenceParallel() ? slice.own_rows * tp_rank_.value() : 0);
    const auto view = [&](BufferId of, absl::string_view name, std::vector<int64_t> shape) {
      return of < 0 ? of : View(of, absl::StrCat(name, ".s", i), first * s, std::move(shape));
    };
    slice.tokens = view(ids_.tokens, "tokens", {sequences, s});
    slice.targets = view(ids_.targets, "targets", {sequences, s});
    slice.documents = view(ids_.documents, "documents", {sequences, s});
    slice.losses = view(ids_.losses, "losses", {slice.rows});
    slice.layers.resize(model_.layers);
    first += sequences;
    slices_.push_back(std::move(slice));
  }
}

}  // namespace stretto
