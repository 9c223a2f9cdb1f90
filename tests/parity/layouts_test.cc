// One training, several layouts: slicing and TP size change rounding and nothing else.

#include "gtest/gtest.h"
#include "tests/parity/harness.h"

namespace stretto::parity {
namespace {

// Both programs have the same activations and the same gradients of activations, bit for bit. A
// weight gradient adds the same n products (n tokens) in another order, so each of the two is off
// by at most n * 2^-24 * sum|products| (Higham 2002, section 4.2), and sum|products| <= sqrt(n) *
// root of the sum of squares, which for products that do not cancel more than independent ones is
// the gradient itself: 2 n sqrt(n) 2^-24 of its norm.
double GradientBound(double tokens) { return 2 * tokens * std::sqrt(tokens) * 0x1p-24; }

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
      const double bound = GradientBound(micro_batches * 4 * spec.model.sequence_length);
      for (size_t i = 0; i < sync.gradients.size(); ++i) {
        EXPECT_LE(Distance(domino.gradients[i], sync.gradients[i]),
                  bound * ScaleOf(sync.gradients[i], sync.gradients))
            << ParametersOf(spec.model, 1, 0)[i].name;
      }
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
  const Result one = Train(SpecOf({.slices = {4}}), {.steps = 3});
  const Result two = Train(SpecOf({.slices = {2}, .micro_batches = 2}), {.steps = 3});
  for (size_t step = 0; step < 3; ++step)
    EXPECT_NEAR(two.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
}

TEST(TrainingTest, StartsAtTheLossOfAUniformGuess) {
  const Result result = Train(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), {});
  EXPECT_NEAR(result.steps[0].loss, std::log(90.0), 0.05);
}

}  // namespace
}  // namespace stretto::parity
