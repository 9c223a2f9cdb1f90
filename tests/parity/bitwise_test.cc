// SPDX-License-Identifier: Apache-2.0

// The bitwise oracle (DESIGN section 5): the same sliced program, run serially in canonical order
// on one lane.

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/matrix.h"

namespace stretto::parity {
namespace {

class BitwiseOracleTest : public ::testing::TestWithParam<Layout> {};

TEST_P(BitwiseOracleTest, ScheduleEqualsItsSerialOracle) {
  const EngineSpec spec = SpecOf(GetParam());
  const Result oracle = Train(spec, {.variant = Variant::kSerialOracle, .steps = 3});
  ExpectSameBits(oracle, Train(spec, {.steps = 3}));
}

TEST_P(BitwiseOracleTest, RandomDelaysOfCollectivesChangeNothing) {
  const EngineSpec spec = SpecOf(GetParam());
  const Result oracle = Train(spec, {.variant = Variant::kSerialOracle, .steps = 3});
  ExpectSameBits(oracle, Train(spec, {.steps = 3, .max_delay = absl::Microseconds(150)}));
}

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int micro_batches : {1, 2}) {
      layouts.push_back({.micro_batches = micro_batches, .dtype = dtype});
      for (const std::vector<int>& slices : {std::vector<int>{4}, {2, 2}, {1, 3}, {2, 1, 1}}) {
        layouts.push_back({.schedule = "domino_row",
                           .slices = slices,
                           .micro_batches = micro_batches,
                           .dtype = dtype});
      }
    }
  }
  // Weight gradients merged over some of a step's micro-batches, also of a step that passes
  // shorten.
  for (const char* schedule : {"domino_row", "domino_inter"}) {
    for (const auto& [merged, micro_batches] : {std::pair{2, 4}, {3, 6}, {2, 16}}) {
      layouts.push_back({.schedule = schedule,
                         .slices = {2, 2},
                         .merge_wgrads = merged,
                         .micro_batches = micro_batches});
    }
  }
  return layouts;
}

// Two micro-batches and more, also of a step that passes shorten; also of one sequence each. The
// other options take turns.
std::vector<Layout> WovenLayouts() {
  std::vector<Layout> layouts;
  for (const auto& [micro_batches, slices] :
       {std::pair{2, std::vector<int>{4}}, {3, {1, 3}}, {4, {1}}, {5, {2, 1, 1}}, {9, {2}}}) {
    for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (bool sequence_parallel : {false, true}) {
        const size_t turn = layouts.size();
        layouts.push_back({.family = turn % 4 < 2 ? Family::kGpt : Family::kLlama,
                           .schedule = "helix",
                           .tp_size = turn % 5 == 4 ? 4 : 2,
                           .slices = slices,
                           .sequence_parallel = sequence_parallel,
                           .recompute = recompute,
                           .dropout = turn % 3 == 1 ? 0.1 : 0,
                           .micro_batches = micro_batches,
                           .layers = 3});
      }
    }
  }
  return layouts;
}

// As many ranks as a node has GPUs, each with one head.
TEST(HelixTest, EightRanksHaveTheBitsOfTheirSerialOracle) {
  int turn = 0;
  for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const auto& [family, sequence_parallel] : {std::pair{Family::kGpt, false},
                                                    {Family::kGpt, true},
                                                    {Family::kLlama, false},
                                                    {Family::kLlama, true}}) {
      ModelSpec model = ModelOf(family);
      model.hidden = 32;
      model.heads = 8;
      model.kv_heads = 8;
      const Layout layout = {.family = family,
                             .schedule = "helix",
                             .tp_size = 8,
                             .slices = turn % 3 == 0 ? std::vector<int>{2} : std::vector{1, 1},
                             .sequence_parallel = sequence_parallel,
                             .recompute = recompute,
                             .dropout = turn % 2 == 1 ? 0.1 : 0,
                             .micro_batches = 3};
      ++turn;
      const EngineSpec spec = stretto::SpecOf(layout, model);
      const Result oracle = Train(spec, {.variant = Variant::kSerialOracle, .steps = 2});
      ExpectSameBits(oracle, Train(spec, {.steps = 2, .max_delay = absl::Microseconds(150)}));
    }
  }
}

// One stage of two chunks, two and four, with as few micro-batches as they take and with more.
std::vector<Layout> FoldedLayouts() {
  std::vector<Layout> layouts;
  for (int stages : {1, 2, 4}) {
    for (int tp_size : {1, 2}) {
      for (bool sequence_parallel : {false, true}) {
        const size_t turn = layouts.size();
        layouts.push_back(
            InOrder({.family = turn % 4 < 2 ? Family::kGpt : Family::kLlama,
                     .tp_size = tp_size,
                     .dp_size = turn % 3 == 2 ? 2 : 1,
                     .zero = turn % 6 == 5 ? 1 : 0,
                     .pp_size = stages,
                     .slices = turn % 2 == 0 ? std::vector<int>{2} : std::vector{1, 1},
                     .sequence_parallel = sequence_parallel,
                     .recompute = static_cast<Recompute>(turn % 3),
                     .dropout = turn % 3 == 1 ? 0.1 : 0,
                     .other_options = turn % 4 == 1,
                     .micro_batches = turn % 3 == 0 ? 7 : 1},
                    "folded"));
      }
    }
  }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Folded, BitwiseOracleTest, ::testing::ValuesIn(FoldedLayouts()),
                         NameOfLayout);

// Without a second stage, the order of two chunks is helix in halves.
TEST(FoldedTest, OneStageIsBitwiseEqualToHelix) {
  const Options options = {.steps = 3, .gradients_of_step = 0};
  int turn = 0;
  for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (bool sequence_parallel : {false, true}) {
      const Layout helix = {.family = turn % 4 < 2 ? Family::kGpt : Family::kLlama,
                            .schedule = "helix",
                            .slices = turn % 3 == 0 ? std::vector<int>{2} : std::vector{1, 1},
                            .sequence_parallel = sequence_parallel,
                            .recompute = recompute,
                            .dropout = turn % 2 == 1 ? 0.1 : 0,
                            .micro_batches = 4,
                            .layers = 4};
      ++turn;
      SCOPED_TRACE(Describe(helix));
      ExpectSameBits(Train(SpecOf(InOrder(helix, "folded")), options),
                     Train(SpecOf(helix), options));
    }
  }
}

// Also with a tied head, whose gradient each end adds up for itself.
TEST(FoldedTest, StagesAreBitwiseEqualToThoseOfOtherOrders) {
  for (bool other_options : {false, true}) {
    const Layout plain = {.schedule = "domino_row",
                          .pp_size = 2,
                          .slices = {1, 1},
                          .other_options = other_options,
                          .micro_batches = 4,
                          .layers = 4};
    const Options options = {.steps = 3, .gradients_of_step = 0};
    ExpectSameBits(Train(SpecOf(InOrder(plain, "folded")), options), Train(SpecOf(plain), options));
  }
}

INSTANTIATE_TEST_SUITE_P(Woven, BitwiseOracleTest, ::testing::ValuesIn(WovenLayouts()),
                         NameOfLayout);

INSTANTIATE_TEST_SUITE_P(Layouts, BitwiseOracleTest, ::testing::ValuesIn(Layouts()), NameOfLayout);

// Where nothing is clipped and every norm is finite, an update does not care when it runs.
TEST(BitwiseOracleTest, UpdatesAtOnceHaveTheBitsOfThoseBehindTheNorm) {
  for (const ScheduleRules& takes : kSchedules) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (bool sequence_parallel : {false, true}) {
        Layout layout = {.schedule = takes.name,
                         .slices = takes.sliced() ? std::vector<int>{3, 1} : std::vector{4},
                         .splits = takes.splits ? 2 : 1,
                         .sequence_parallel = sequence_parallel,
                         .micro_batches = 2,
                         .dtype = dtype};
        const Options options = {.steps = 3, .clip_norm = 0};
        const Result behind = Train(SpecOf(layout), options);
        layout.update_at_once = true;
        SCOPED_TRACE(Describe(layout));
        ExpectSameBits(behind, Train(SpecOf(layout), options));
      }
    }
  }
}

// The oracle means something: another slicing, and another seed, do differ.
TEST(BitwiseOracleTest, DifferentTrainingsHaveDifferentBits) {
  const EngineSpec whole = SpecOf({}),
                   sliced = SpecOf({.schedule = "domino_row", .slices = {2, 2}});
  const Result a = Train(whole, {.steps = 2}), b = Train(sliced, {.steps = 2}),
               c = Train(whole, {.steps = 2, .seed = 2});
  EXPECT_FALSE(SameBits(a.gradients, b.gradients));
  EXPECT_FALSE(SameBits(a.weights, b.weights));
  EXPECT_FALSE(SameBits(a.steps[0].token_losses, c.steps[0].token_losses));
}

}  // namespace
}  // namespace stretto::parity
