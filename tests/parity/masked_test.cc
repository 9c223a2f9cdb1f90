// SPDX-License-Identifier: Apache-2.0

// Losses that do not count, in every layout against a reference in f64.

#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/reference_loss.h"

namespace stretto::parity {
namespace {

constexpr int kSequences = 4;  // of a step, in every layout here

// Nothing learns and nothing is clipped, so weights and gradients are those of step 0.
Options With(double masked) {
  return {.learning_rate = 0, .weight_decay = 0, .clip_norm = 0, .masked = masked};
}

Batch BatchOf(const ModelSpec& model, const Options& options) {
  Batch batch;
  for (int sequence = 0; sequence < kSequences; ++sequence) {
    for (int s = 0; s < model.sequence_length; ++s) {
      batch.tokens.push_back(TokenAt(model, 0, sequence, s));
      batch.targets.push_back(TargetAt(model, options, 0, sequence, s));
    }
  }
  return batch;
}

struct Expected {
  Batch batch;
  double loss = 0;
  Tensors gradient;
};

// Computed once, on the weights with which every layout begins.
const Expected& ExpectedWith(double masked) {
  static auto* const known = new std::map<double, Expected>();
  auto [found, fresh] = known->try_emplace(masked);
  if (fresh) {
    const EngineSpec spec = SpecOf({.tp_size = 1});
    ReferenceLoss reference(spec.model, Train(spec, With(masked)).weights);
    Expected& expected = found->second;
    expected.batch = BatchOf(spec.model, With(masked));
    expected.loss = reference.Loss(expected.batch);
    expected.gradient = reference.Gradient(expected.batch);
  }
  return found->second;
}

class MaskedTest : public ::testing::TestWithParam<Layout> {};

TEST_P(MaskedTest, LossAndGradientsAreThoseOfTheTargetsThatCount) {
  const EngineSpec spec = SpecOf(GetParam());
  ASSERT_EQ(spec.sequences_per_step(), kSequences);
  for (double masked : {0.0, 0.6}) {
    const Expected& expected = ExpectedWith(masked);
    const Result result = Train(spec, With(masked));
    const Floats& losses = result.steps[0].token_losses;
    ASSERT_EQ(losses.size(), expected.batch.targets.size());
    double sum = 0, targets = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
      const bool counts = expected.batch.targets[i] != kNoTarget;
      if (!counts) {
        EXPECT_EQ(losses[i], 0.0f) << i;
      }
      sum += losses[i];
      targets += counts ? 1 : 0;
    }
    EXPECT_NEAR(sum / targets, expected.loss, kF32LossBound * expected.loss);
    ExpectGradientsWithin(kF32GradientBound, spec.model, result.gradients, expected.gradient);
    EXPECT_NEAR(result.steps[0].gradient_norm, Norm(expected.gradient),
                kF32GradientBound * Norm(expected.gradient));
  }
}

// Sequence 1 has no target at all, and so has its micro-batch where it is alone.
INSTANTIATE_TEST_SUITE_P(
    Layouts, MaskedTest,
    ::testing::Values(Layout{.tp_size = 1}, Layout{.tp_size = 4},
                      Layout{.schedule = "domino_row", .slices = {1, 3}},
                      Layout{.schedule = "domino_hybrid",
                             .slices = {2, 2},
                             .splits = 2,
                             .sequence_parallel = true,
                             .recompute = Recompute::kFull},
                      Layout{.tp_size = 1, .slices = {2}, .merge_wgrads = 2, .micro_batches = 2},
                      Layout{.tp_size = 1, .slices = {1}, .micro_batches = 4},
                      Layout{.schedule = "helix", .slices = {1}, .micro_batches = 4},
                      Layout{.tp_size = 2, .dp_size = 2, .slices = {2}},
                      Layout{
                          .tp_size = 1, .dp_size = 2, .zero = 1, .slices = {1}, .micro_batches = 2},
                      Layout{.tp_size = 1, .pp_size = 2, .slices = {1}, .micro_batches = 4},
                      Layout{.dp_size = 2,
                             .pp_size = 2,
                             .stages = {{1, 2, 1}, {1, 1, 2}},
                             .slices = {1},
                             .micro_batches = 2}),
    NameOfLayout);

TEST(NoTargetTest, AStepWithoutTargetsHasNoLossAndNoGradient) {
  const Result result = Train(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), With(1));
  for (float loss : result.steps[0].token_losses) EXPECT_EQ(loss, 0.0f);
  EXPECT_EQ(result.steps[0].gradient_norm, 0.0f);
  EXPECT_TRUE(result.steps[0].updated);
  EXPECT_EQ(Norm(result.gradients), 0.0);
}

TEST(NoTargetTest, InBf16TheGradientOfARowWithoutATargetIsZeroToo) {
  const Layout layout = {.schedule = "domino_row", .slices = {2, 2}, .dtype = DType::kBF16};
  EXPECT_EQ(Norm(Train(SpecOf(layout), With(1)).gradients), 0.0);
  const Expected& expected = ExpectedWith(0.6);
  const Result result = Train(SpecOf(layout), With(0.6));
  EXPECT_NEAR(result.steps[0].gradient_norm, Norm(expected.gradient),
              kBF16GradientBound * Norm(expected.gradient));
}

}  // namespace
}  // namespace stretto::parity
