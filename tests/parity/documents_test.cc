// SPDX-License-Identifier: Apache-2.0

// Sequences of several documents, which do not see each other, in every kind of layout against a
// reference in f64. The pairwise set (matrix.h) has them with everything else.

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/reference_loss.h"

namespace stretto::parity {
namespace {

constexpr int kStepSequences = 4;  // of a step, in every layout here

// Nothing learns and nothing is clipped, so weights and gradients are those of step 0.
const Options kStill = {.learning_rate = 0, .weight_decay = 0, .clip_norm = 0};

Batch BatchOfDocuments(const ModelSpec& model) {
  Batch batch;
  for (int sequence = 0; sequence < kStepSequences; ++sequence) {
    for (int s = 0; s < model.sequence_length; ++s) {
      batch.tokens.push_back(TokenAt(model, 0, sequence, s));
      batch.targets.push_back(TokenAt(model, 0, sequence, s + 1));
      batch.documents.push_back(DocumentAt(0, sequence, s));
    }
  }
  return batch;
}

struct DocumentsApart {
  double loss = 0;
  Tensors gradient;
};

// Computed once, on the weights with which every layout begins.
const DocumentsApart& ExpectedApart() {
  static const auto* const expected = [] {
    const EngineSpec spec = SpecOf({.tp_size = 1});
    ReferenceLoss reference(spec.model, Train(spec, kStill).weights);
    const Batch batch = BatchOfDocuments(spec.model);
    return new DocumentsApart{reference.Loss(batch), reference.Gradient(batch)};
  }();
  return *expected;
}

class DocumentsTest : public ::testing::TestWithParam<Layout> {};

TEST_P(DocumentsTest, LossAndGradientsAreThoseOfDocumentsApart) {
  Layout layout = GetParam();
  layout.document_mask = true;
  const EngineSpec spec = SpecOf(layout);
  ASSERT_EQ(spec.sequences_per_step(), kStepSequences);
  const DocumentsApart& expected = ExpectedApart();
  const Result result = Train(spec, kStill);
  EXPECT_NEAR(result.steps[0].loss, expected.loss, kF32LossBound * expected.loss);
  ExpectGradientsWithin(kF32GradientBound, spec.model, result.gradients, expected.gradient);
  // Another attention would differ by more than the bounds.
  layout.document_mask = false;
  const Result whole = Train(SpecOf(layout), kStill);
  EXPECT_GT(std::abs(whole.steps[0].loss - expected.loss), 4 * kF32LossBound * expected.loss);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DocumentsTest,
    ::testing::Values(Layout{.tp_size = 1}, Layout{.tp_size = 4},
                      Layout{.schedule = "domino_row", .slices = {1, 3}},
                      Layout{.schedule = "domino_hybrid",
                             .slices = {2, 2},
                             .splits = 2,
                             .sequence_parallel = true,
                             .recompute = Recompute::kFull},
                      Layout{.tp_size = 1, .slices = {2}, .merge_wgrads = 2, .micro_batches = 2},
                      Layout{.schedule = "helix", .slices = {1}, .micro_batches = 4},
                      Layout{
                          .tp_size = 1, .dp_size = 2, .zero = 1, .slices = {1}, .micro_batches = 2},
                      Layout{.tp_size = 1, .pp_size = 2, .slices = {1}, .micro_batches = 4},
                      Layout{.dp_size = 2,
                             .pp_size = 2,
                             .stages = {{1, 2, 1}, {1, 1, 2}},
                             .slices = {1},
                             .micro_batches = 2}),
    NameOfLayout);

}  // namespace
}  // namespace stretto::parity
