// SPDX-License-Identifier: Apache-2.0

// Sequences of several documents, which do not see each other, in every kind of layout against a
// reference in f64. The pairwise set (matrix.h) has them with everything else.

#include <cmath>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/reference_step.h"

namespace stretto::parity {
namespace {

TEST(DocumentsTest, LossAndGradientsAreThoseOfDocumentsApart) {
  const ReferenceStep expected = ReferenceStepOf(StillOptions(), /*documents=*/true);
  for (Layout layout : ReferenceLayouts()) {
    SCOPED_TRACE(Describe(layout));
    layout.document_mask = true;
    const EngineSpec spec = SpecOf(layout);
    ASSERT_EQ(spec.sequences_per_step(), kReferenceSequences);
    const Result result = Train(spec, StillOptions());
    EXPECT_NEAR(result.steps[0].loss, expected.loss, kF32LossBound * expected.loss);
    ExpectGradientsWithin(kF32GradientBound, spec.model, result.gradients, expected.gradient);
    // Another attention would differ by more than the bounds.
    layout.document_mask = false;
    const Result whole = Train(SpecOf(layout), StillOptions());
    EXPECT_GT(std::abs(whole.steps[0].loss - expected.loss), 4 * kF32LossBound * expected.loss);
  }
}

}  // namespace
}  // namespace stretto::parity
