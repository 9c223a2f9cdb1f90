// SPDX-License-Identifier: Apache-2.0

// Models of features that no family combines train as the families do: bitwise as their serial
// oracle, and with nonzero gradients everywhere.

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/worker/engine/mixtures.h"

namespace stretto::parity {
namespace {

class MixtureTest : public ::testing::TestWithParam<Architecture> {};

TEST_P(MixtureTest, ScheduleEqualsItsSerialOracle) {
  EngineSpec spec = SpecOf({.family = Family::kLlama, .schedule = "domino_row", .slices = {2, 2}});
  spec.model.architecture = GetParam();
  const Result oracle = Train(spec, {.variant = Variant::kSerialOracle, .steps = 2});
  ExpectSameBits(oracle, Train(spec, {.steps = 2}));
  ExpectNonZero(spec, Train(spec, {}).gradients);
}

TEST_P(MixtureTest, TwoRanksAgreeWithOne) {
  EngineSpec spec = SpecOf({.family = Family::kLlama, .tp_size = 1});
  spec.model.architecture = GetParam();
  const Result one = Train(spec, {.gradients_of_step = 0});
  spec.tp_size = 2;
  const Result two = Train(spec, {.gradients_of_step = 0});
  EXPECT_NEAR(two.steps[0].loss, one.steps[0].loss, kF32LossBound * one.steps[0].loss);
  ExpectGradientsWithin(kF32GradientBound, spec.model, two.gradients, one.gradients);
}

INSTANTIATE_TEST_SUITE_P(Features, MixtureTest, ::testing::ValuesIn(EveryMixture()),
                         [](const auto& info) { return Describe(info.param); });

}  // namespace
}  // namespace stretto::parity
