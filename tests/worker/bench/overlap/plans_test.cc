// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/plans.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/bench/testing/made_up_costs.h"
#include "worker/bench/overlap/choices.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;

OverlapOptions Options() {
  OverlapOptions options;
  options.model = {.layers = 4,
                   .hidden = 32,
                   .heads = 4,
                   .ffn_hidden = 128,
                   .sequence_length = 16,
                   .vocab_size = 100};
  options.batch = 2;
  options.micro_batches = 3;
  options.slices = {1};
  options.splits = {1};
  return options;
}

TEST(PlansTest, OnlySchedulesThatWeaveHaveThem) {
  OverlapOptions options = Options();
  const auto plans = [&](const char* schedule) {
    std::vector<std::string> names;
    for (const Choice& choice : ChoicesOf(options, schedule)) names.push_back(choice.plan);
    return names;
  };
  EXPECT_THAT(plans("domino_row"), ElementsAre(""));
  EXPECT_THAT(plans("helix"), ElementsAre("default"));
  options.costs.emplace();
  EXPECT_THAT(plans("helix"), ElementsAre("default", "found"));
  options.plans = {"blocks"};
  EXPECT_THAT(plans("helix"), ElementsAre("blocks"));
  EXPECT_EQ(Describe(ChoicesOf(options, "helix")[0]),
            "helix, 3 x 2 sequences, slices 1, splits 1, blocks plan");
}

TEST(PlansTest, PlansAreFoundForTheCosts) {
  EngineSpec spec = Options().Unsliced();
  spec.schedule.name = "helix";
  const std::optional<CostProfile> costs = MadeUpCosts({spec});
  EngineSpec given = spec, found = spec, blocks = spec;
  EXPECT_EQ(SetPlan("default", costs, &given), absl::OkStatus());
  EXPECT_EQ(SetPlan("found", costs, &found), absl::OkStatus());
  EXPECT_EQ(SetPlan("blocks", costs, &blocks), absl::OkStatus());
  EXPECT_EQ(given.schedule.weave, "");
  EXPECT_NE(found.schedule.weave, "");
  EXPECT_NE(blocks.schedule.weave, "");
  EXPECT_NE(found.schedule.weave, blocks.schedule.weave);
}

TEST(PlansTest, NothingIsFoundWithoutCosts) {
  EngineSpec spec = Options().Unsliced();
  spec.schedule.name = "helix";
  EXPECT_EQ(SetPlan("found", std::nullopt, &spec),
            absl::InvalidArgumentError("--plans: found 'found' without --costs, expected default"));
}

}  // namespace
}  // namespace stretto::bench
