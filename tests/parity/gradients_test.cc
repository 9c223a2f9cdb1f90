// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/specs.h"

namespace stretto::parity {
namespace {

LayerParameters LayerOf(const EngineSpec& spec, size_t layer) {
  return IndexOf(ParametersOf(spec.model, 1, 0), spec.model.layers).layers[layer];
}

TEST(GradientsTest, TheNormCountsEveryShardOnce) {
  for (int tp_size : {1, 2, 4}) {
    const Result result = Train(SpecOf({.tp_size = tp_size}), {.steps = 2});
    const double norm = Norm(result.gradients);
    EXPECT_NEAR(result.steps.back().gradient_norm, norm, 1e-6 * norm) << "tp " << tp_size;
  }
}

TEST(GradientsTest, AreNonZeroExceptWhereMathematicsMakesThemSo) {
  for (Family family : EveryFamily()) {
    for (Layout layout : {Layout{.tp_size = 1}, kDomino}) {
      layout.family = family;
      const EngineSpec spec = SpecOf(layout);
      ExpectNonZero(spec, Train(spec, {}).gradients);
    }
  }
}

TEST(GradientsTest, PaddingStaysZeroThroughTraining) {
  for (Family family : EveryFamily()) {
    Layout layout = kDomino;
    layout.family = family;
    const EngineSpec spec = SpecOf(layout);
    const Result result = Train(spec, {.steps = 5});
    const std::vector<Parameter> parameters = ParametersOf(spec.model, 1, 0);
    const ModelParameters index = IndexOf(parameters, spec.model.layers);
    const auto padding = static_cast<size_t>(spec.model.vocab_size * spec.model.hidden);
    for (int table : {index.token_embedding, index.head}) {
      const Floats& weights = result.weights[table];
      ASSERT_GT(weights.size(), padding);
      for (size_t e = padding; e < weights.size(); ++e) EXPECT_EQ(weights[e], 0);
    }
  }
}

// Losses of the same step with one weight moved by +-d: (L(w+d) - L(w-d)) / 2d. In f32 the loss is
// known to about 3e-8 (64 tokens of error 2^-24 * 4.6, averaged), so the quotient to about 3e-8 / d
// = 6e-6 with d = 5e-3; the cubic term adds d^2/6 of the third derivative. Both lie below 1 % of
// the largest element plus 2e-5.
class FiniteDifferenceTest : public ::testing::TestWithParam<Layout> {};

TEST_P(FiniteDifferenceTest, EveryParameterTensorAgrees) {
  constexpr float kMove = 5e-3f;
  const EngineSpec spec = SpecOf(GetParam());
  // Nothing learns and nothing is clipped: every run is the same step with other weights.
  Job job(spec, {.learning_rate = 0,
                 .weight_decay = 0,
                 .clip_norm = 0,
                 .same_batch = true,
                 .same_masks = true});
  auto loss = [&] {
    EXPECT_TRUE(job.Run(1).ok());
    return job.rank(0).results.back().loss;
  };
  const std::vector<Parameter> parameters = ParametersOf(spec.model, 1, 0);
  // Larger weights than at the start of training have larger gradients everywhere.
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t r = 0; r < job.size(); ++r) {
      Floats shard = job.rank(r).Read(job.rank(r).plan().buffers.master[i]);
      for (float& w : shard) w *= parameters[i].init == Init::kNormal ? 12.0f : 1.0f;
      job.rank(r).SetWeight(i, shard);
    }
  }
  (void)loss();
  const Result base = job.Collect();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Floats& gradient = base.gradients[i];
    const auto largest = std::max_element(gradient.begin(), gradient.end(), [](float a, float b) {
      return std::abs(a) < std::abs(b);
    });
    const int64_t count = static_cast<int64_t>(gradient.size());
    for (int64_t element : {largest - gradient.begin(), count / 3, count - 1}) {
      const float w = base.weights[i][element];
      job.SetWeight(i, element, w + kMove);
      const double up = loss();
      job.SetWeight(i, element, w - kMove);
      const double down = loss();
      job.SetWeight(i, element, w);
      const double width = static_cast<double>(w + kMove) - static_cast<double>(w - kMove);
      EXPECT_NEAR((up - down) / width, gradient[element], 0.01 * std::abs(*largest) + 2e-5)
          << parameters[i].name << " element " << element;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, FiniteDifferenceTest,
                         ::testing::Values(Layout{.tp_size = 1}, kDomino,
                                           Layout{.family = Family::kLlama, .tp_size = 1},
                                           Layout{.tp_size = 1, .dropout = 0.1},
                                           Layout{.family = Family::kLlama,
                                                  .schedule = "domino_row",
                                                  .slices = {1, 3},
                                                  .sequence_parallel = true,
                                                  .recompute = Recompute::kFull,
                                                  .dropout = 0.1}),
                         NameOfLayout);

TEST(NonFiniteTest, ANormThatIsNotFiniteSkipsTheUpdateOnAllRanks) {
  for (float poison : {std::nanf(""), INFINITY, 1e30f}) {
    const EngineSpec spec = SpecOf(kDomino);
    Job job(spec, {});
    ASSERT_TRUE(job.Run(2).ok());
    // Somewhere in the second rank's half of fc1 of the last layer.
    const size_t fc1 = static_cast<size_t>(LayerOf(spec, 1).fc1_w);
    job.SetWeight(fc1, spec.model.ffn_hidden * spec.model.hidden - 3, poison);
    auto state = [&](auto member) {
      return job.Gather([&](Rank& rank) { return rank.ReadAll(rank.plan().buffers.*member); });
    };
    const Tensors weights = state(&StepBuffers::master), m = state(&StepBuffers::moment1),
                  v = state(&StepBuffers::moment2);
    ASSERT_TRUE(job.Run(1).ok());
    for (size_t r = 0; r < job.size(); ++r) {
      EXPECT_FALSE(job.rank(r).results.back().updated);
      EXPECT_FALSE(std::isfinite(job.rank(r).results.back().gradient_norm));
    }
    EXPECT_TRUE(SameBits(state(&StepBuffers::master), weights));
    EXPECT_TRUE(SameBits(state(&StepBuffers::moment1), m));
    EXPECT_TRUE(SameBits(state(&StepBuffers::moment2), v));

    // With the weight healed, training continues.
    job.SetWeight(fc1, spec.model.ffn_hidden * spec.model.hidden - 3, 0.01f);
    ASSERT_TRUE(job.Run(1).ok());
    EXPECT_TRUE(job.rank(0).results.back().updated);
    EXPECT_FALSE(SameBits(state(&StepBuffers::moment1), m));
  }
}

TEST(NonFiniteTest, InBf16TheComputeWeightsAreUntouchedToo) {
  Layout layout = kDomino;
  layout.dtype = DType::kBF16;
  const EngineSpec spec = SpecOf(layout);
  Job job(spec, {});
  ASSERT_TRUE(job.Run(1).ok());
  job.SetWeight(static_cast<size_t>(LayerOf(spec, 0).fc2_w), 5, std::nanf(""));
  auto bits = [&](Rank& rank) {
    std::vector<uint16_t> all;
    for (BufferId id : rank.plan().buffers.weight) {
      const TensorView view = *rank.executor().Read(id);
      for (int64_t i = 0; i < view.count(); ++i) all.push_back(view.as<BF16>()[i].bits);
    }
    return all;
  };
  const std::vector<uint16_t> before0 = bits(job.rank(0)), before1 = bits(job.rank(1));
  ASSERT_TRUE(job.Run(1).ok());
  EXPECT_FALSE(job.rank(1).results.back().updated);
  EXPECT_EQ(bits(job.rank(0)), before0);
  EXPECT_EQ(bits(job.rank(1)), before1);
}

// The parameters are given up, but not in silence.
TEST(NonFiniteTest, UpdatesAtOnceStillReportANormThatIsNotFinite) {
  Layout layout = kDomino;
  layout.update_at_once = true;
  const EngineSpec spec = SpecOf(layout);
  Job job(spec, {.clip_norm = 0});
  ASSERT_TRUE(job.Run(1).ok());
  EXPECT_TRUE(job.rank(0).results.back().updated);
  job.SetWeight(static_cast<size_t>(LayerOf(spec, 1).fc2_w), 5, std::nanf(""));
  ASSERT_TRUE(job.Run(1).ok());
  for (size_t r = 0; r < job.size(); ++r) {
    EXPECT_FALSE(job.rank(r).results.back().updated);
    EXPECT_FALSE(std::isfinite(job.rank(r).results.back().gradient_norm));
  }
}

}  // namespace
}  // namespace stretto::parity
