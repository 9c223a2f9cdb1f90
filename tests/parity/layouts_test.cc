// SPDX-License-Identifier: Apache-2.0

// One training, several layouts: slicing and TP size change rounding and nothing else.

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"

namespace stretto::parity {
namespace {

TEST(SlicingTest, DominoRowAgreesWithUnslicedMegatronSync) {
  for (int micro_batches : {1, 2}) {
    const Options options = {.steps = 5, .gradients_of_step = 0};
    const Result sync = Train(SpecOf({.slices = {4}, .micro_batches = micro_batches}), options);
    for (const std::vector<int>& slices :
         {std::vector<int>{2, 2}, {1, 3}, {2, 1, 1}, {1, 1, 1, 1}}) {
      const EngineSpec spec =
          SpecOf({.schedule = "domino_row", .slices = slices, .micro_batches = micro_batches});
      const Result domino = Train(spec, options);
      EXPECT_TRUE(SameBits(domino.steps[0].token_losses, sync.steps[0].token_losses));
      const double bound = WgradOrderBound(spec);
      ExpectGradientsWithin(bound, spec.model, domino.gradients, sync.gradients);
      // A step moves a weight by about the learning rate whatever the gradient's size, so that a
      // relative error of the gradient becomes that error of the move; the loss follows the
      // weights.
      for (size_t step = 1; step < sync.steps.size(); ++step) {
        EXPECT_NEAR(domino.steps[step].loss, sync.steps[step].loss, bound * sync.steps[step].loss)
            << step;
      }
    }
  }
}

TEST(SlicingTest, Bf16AgreesWithinItsRounding) {
  // bf16 keeps 8 bits. Losses are means over tokens of f32 sums: a few roundings deep, each 2^-9,
  // and they average out.
  const Result f32 = Train(SpecOf({}), {.steps = 3});
  const Result bf16 = Train(SpecOf({.dtype = DType::kBF16}), {.steps = 3});
  for (size_t step = 0; step < 3; ++step)
    EXPECT_NEAR(bf16.steps[step].loss, f32.steps[step].loss, 0x1p-8 * f32.steps[step].loss);
}

TEST(WireTest, ANarrowWireRoundsWhereThereIsOne) {
  for (bool sequence_parallel : {false, true}) {
    const auto train = [&](int tp_size, DType wire) {
      return Train(
          SpecOf({.tp_size = tp_size, .sequence_parallel = sequence_parallel, .wire = wire}),
          {.gradients_of_step = 0});
    };
    const Result wide = train(2, DType::kF32), narrow = train(2, DType::kBF16);
    EXPECT_FALSE(SameBits(narrow.steps[0].token_losses, wide.steps[0].token_losses));
    EXPECT_NEAR(narrow.steps[0].loss, wide.steps[0].loss, kBF16LossBound * wide.steps[0].loss);
    ExpectGradientsWithin(kBF16GradientBound, ModelOf(Family::kGpt), narrow.gradients,
                          wide.gradients);
    EXPECT_TRUE(SameBits(train(1, DType::kBF16).weights, train(1, DType::kF32).weights));
  }
}

TEST(TpSizeTest, OneTwoAndFourRanksAgree) {
  const Result one = Train(SpecOf({.tp_size = 1}), {.steps = 50});
  for (int tp_size : {2, 4}) {
    const Result many = Train(SpecOf({.tp_size = tp_size}), {.steps = 50});
    for (size_t step = 0; step < 50; ++step) {
      const double tolerance = step < 10 ? 1e-5 : 1e-3;
      EXPECT_NEAR(many.steps[step].loss, one.steps[step].loss, tolerance * one.steps[step].loss)
          << "tp " << tp_size << " step " << step;
    }
  }
}

TEST(TpSizeTest, DominoOnFourRanksAgreesToo) {
  const Result one = Train(SpecOf({.tp_size = 1}), {.steps = 10});
  const Result four =
      Train(SpecOf({.schedule = "domino_row", .tp_size = 4, .slices = {1, 2, 1}}), {.steps = 10});
  for (size_t step = 0; step < 10; ++step)
    EXPECT_NEAR(four.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
}

TEST(MicroBatchTest, TwoMicroBatchesAreOneBatchOfTwiceTheSize) {
  for (double dropout : {0.0, 0.1}) {
    const Result one = Train(SpecOf({.slices = {4}, .dropout = dropout}), {.steps = 3});
    const Result two =
        Train(SpecOf({.slices = {2}, .dropout = dropout, .micro_batches = 2}), {.steps = 3});
    for (size_t step = 0; step < 3; ++step)
      EXPECT_NEAR(two.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
  }
}

// Masks are keyed by step, token, layer and column, so that every layout drops the same elements.
class DropoutTest : public ::testing::TestWithParam<Family> {};

TEST_P(DropoutTest, MasksDoNotDependOnSlicingTpSizeOrSequenceParallelism) {
  const Options options = {.steps = 2, .gradients_of_step = 0};
  Layout layout = {.family = GetParam(), .tp_size = 1, .dropout = 0.3};
  const Result one = Train(SpecOf(layout), options);
  for (int tp_size : {1, 2, 4}) {
    layout = {.family = GetParam(), .tp_size = tp_size, .dropout = 0.3};
    const Result whole = Train(SpecOf(layout), options);
    for (size_t step = 0; step < 2; ++step)
      EXPECT_NEAR(whole.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
    ExpectGradientsWithin(kF32GradientBound, ModelOf(GetParam()), whole.gradients, one.gradients);
    layout.schedule = "domino_row";
    for (const std::vector<int>& slices : {std::vector<int>{2, 2}, {1, 2, 1}}) {
      for (bool sequence_parallel : {false, true}) {
        layout.slices = slices;
        layout.sequence_parallel = sequence_parallel;
        const Result sliced = Train(SpecOf(layout), options);
        EXPECT_TRUE(SameBits(sliced.steps[0].token_losses, whole.steps[0].token_losses)) << tp_size;
      }
    }
  }
}

TEST_P(DropoutTest, EveryStepDrawsItsOwnMasks) {
  const auto steps = [&](double dropout, bool same_masks) {
    return Train(SpecOf({.family = GetParam(), .dropout = dropout}), {.steps = 2,
                                                                      .learning_rate = 0,
                                                                      .weight_decay = 0,
                                                                      .same_batch = true,
                                                                      .same_masks = same_masks})
        .steps;
  };
  const auto none = steps(0, false), own = steps(0.1, false), same = steps(0.1, true);
  EXPECT_TRUE(SameBits(none[0].token_losses, none[1].token_losses));
  EXPECT_FALSE(SameBits(none[0].token_losses, own[0].token_losses));
  EXPECT_FALSE(SameBits(own[0].token_losses, own[1].token_losses));
  EXPECT_TRUE(SameBits(same[0].token_losses, same[1].token_losses));
}

INSTANTIATE_TEST_SUITE_P(Families, DropoutTest, ::testing::ValuesIn(EveryFamily()),
                         [](const auto& info) {
                           return std::string(ArchitectureOf(info.param).name);
                         });

TEST(TrainingTest, StartsAtTheLossOfAUniformGuess) {
  const Result result = Train(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), {});
  EXPECT_NEAR(result.steps[0].loss, std::log(90.0), 0.05);
}

}  // namespace
}  // namespace stretto::parity
