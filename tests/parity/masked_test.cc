// SPDX-License-Identifier: Apache-2.0

// Losses that do not count, in every layout against a reference in f64.

#include <map>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/reference_step.h"

namespace stretto::parity {
namespace {

// Computed once.
const ReferenceStep& ExpectedWith(double masked) {
  static auto* const known = new std::map<double, ReferenceStep>();
  auto [found, fresh] = known->try_emplace(masked);
  if (fresh) found->second = ReferenceStepOf(StillOptions(masked), /*documents=*/false);
  return found->second;
}

// The loss and gradients of a step in `layout`.
void ExpectAsInReference(const Layout& layout, double masked) {
  const EngineSpec spec = SpecOf(layout);
  ASSERT_EQ(spec.sequences_per_step(), kReferenceSequences);
  const ReferenceStep& expected = ExpectedWith(masked);
  const Result result = Train(spec, StillOptions(masked));
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

// Sequence 1 has no target at all, and so has its micro-batch where it is alone.
TEST(MaskedTest, LossAndGradientsAreThoseOfTheTargetsThatCount) {
  for (const Layout& layout : ReferenceLayouts()) {
    SCOPED_TRACE(Describe(layout));
    for (double masked : {0.0, 0.6}) ExpectAsInReference(layout, masked);
  }
}

TEST(NoTargetTest, AStepWithoutTargetsHasNoLossAndNoGradient) {
  const Result result =
      Train(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), StillOptions(1));
  for (float loss : result.steps[0].token_losses) EXPECT_EQ(loss, 0.0f);
  EXPECT_EQ(result.steps[0].gradient_norm, 0.0f);
  EXPECT_TRUE(result.steps[0].updated);
  EXPECT_EQ(Norm(result.gradients), 0.0);
}

TEST(NoTargetTest, InBf16TheGradientOfARowWithoutATargetIsZeroToo) {
  const Layout layout = {.schedule = "domino_row", .slices = {2, 2}, .dtype = DType::kBF16};
  EXPECT_EQ(Norm(Train(SpecOf(layout), StillOptions(1)).gradients), 0.0);
  const ReferenceStep& expected = ExpectedWith(0.6);
  const Result result = Train(SpecOf(layout), StillOptions(0.6));
  EXPECT_NEAR(result.steps[0].gradient_norm, Norm(expected.gradient),
              kBF16GradientBound * Norm(expected.gradient));
}

}  // namespace
}  // namespace stretto::parity
