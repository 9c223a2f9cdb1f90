// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step computed in f64 (reference_loss.h), and layouts of every kind to compare with it.

#include <vector>

#include "tests/parity/harness.h"
#include "tests/parity/reference_loss.h"

namespace stretto::parity {

inline constexpr int kReferenceSequences = 4;  // of the step, in every layout here

// Nothing learns and nothing is clipped, so weights and gradients are those of step 0.
inline Options StillOptions(double masked = 0) {
  return {.learning_rate = 0, .weight_decay = 0, .clip_norm = 0, .masked = masked};
}

struct ReferenceStep {
  Batch batch;
  double loss = 0;
  Tensors gradient;
};

// With the weights with which every layout begins. `documents`: whether those of a sequence are
// apart.
inline ReferenceStep ReferenceStepOf(const Options& options, bool documents) {
  const EngineSpec spec = SpecOf({.tp_size = 1});
  const ModelSpec& model = spec.model;
  ReferenceStep step;
  for (int sequence = 0; sequence < kReferenceSequences; ++sequence) {
    for (int s = 0; s < model.sequence_length; ++s) {
      step.batch.tokens.push_back(TokenAt(model, 0, sequence, s));
      step.batch.targets.push_back(TargetAt(model, options, 0, sequence, s));
      if (documents) step.batch.documents.push_back(DocumentAt(0, sequence, s));
    }
  }
  ReferenceLoss reference(model, Train(spec, options).weights);
  step.loss = reference.Loss(step.batch);
  step.gradient = reference.Gradient(step.batch);
  return step;
}

inline std::vector<Layout> ReferenceLayouts() {
  return {{.tp_size = 1},
          {.tp_size = 4},
          {.schedule = "domino_row", .slices = {1, 3}},
          {.schedule = "domino_hybrid",
           .slices = {2, 2},
           .splits = 2,
           .sequence_parallel = true,
           .recompute = Recompute::kFull},
          {.tp_size = 1, .slices = {2}, .merge_wgrads = 2, .micro_batches = 2},
          {.tp_size = 1, .slices = {1}, .micro_batches = 4},
          {.schedule = "helix", .slices = {1}, .micro_batches = 4},
          {.tp_size = 2, .dp_size = 2, .slices = {2}},
          {.tp_size = 1, .dp_size = 2, .zero = 1, .slices = {1}, .micro_batches = 2},
          {.tp_size = 1, .pp_size = 2, .slices = {1}, .micro_batches = 4},
          {.dp_size = 2,
           .pp_size = 2,
           .stages = {{1, 2, 1}, {1, 1, 2}},
           .slices = {1},
           .micro_batches = 2}};
}

}  // namespace stretto::parity
