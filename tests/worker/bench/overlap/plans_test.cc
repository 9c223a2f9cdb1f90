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

Choice Helix(const std::string& plan) {
  Choice choice = {.spec = Options().Unsliced(), .plan = plan};
  choice.spec.schedule.name = "helix";
  return choice;
}

TEST(PlansTest, PlansAreFoundForTheCosts) {
  Choice given = Helix("default"), found = Helix("found"), blocks = Helix("blocks");
  const std::optional<CostProfile> costs = MadeUpCosts({given.spec});
  for (Choice* choice : {&given, &found, &blocks}) {
    EXPECT_EQ(SetPlan(costs, choice), absl::OkStatus());
    EXPECT_GE(choice->plan_over_bound, 1 - 1e-6) << choice->plan;  // times are whole ns
  }
  EXPECT_EQ(given.spec.schedule.weave, "");
  EXPECT_NE(found.spec.schedule.weave, "");
  EXPECT_NE(blocks.spec.schedule.weave, "");
  EXPECT_NE(found.spec.schedule.weave, blocks.spec.schedule.weave);
  EXPECT_LE(found.plan_over_bound, given.plan_over_bound);
}

TEST(PlansTest, NothingIsFoundWithoutCosts) {
  Choice found = Helix("found"), given = Helix("default");
  EXPECT_EQ(SetPlan(std::nullopt, &found),
            absl::InvalidArgumentError("--plans: found 'found' without --costs, expected default"));
  EXPECT_EQ(SetPlan(std::nullopt, &given), absl::OkStatus());
  EXPECT_EQ(given.plan_over_bound, 0);
}

}  // namespace
}  // namespace stretto::bench
