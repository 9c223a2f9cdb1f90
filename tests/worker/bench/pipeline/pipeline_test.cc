// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "tests/worker/bench/testing/two_ranks.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class PipelineCommandTest : public TwoRanksTest {
 protected:
  PipelineCommandTest() : TwoRanksTest("pipeline") {}
};

TEST_F(PipelineCommandTest, EveryOrderPassesParityAndHasAllFigures) {
  ASSERT_EQ(RunTwoRanks(""), 0) << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"),
              HasSubstr("1f1b, warm-ups 2 1: 2 steps bitwise equal to the serial oracle"));
  const Json result = Json::parse(Printed("json"));
  EXPECT_EQ(result["work"]["micro_batches"], 6);
  for (const char* key : {"forward_seconds", "backward_seconds", "transfer_seconds"})
    EXPECT_GT(result[key], 0) << key;
  ASSERT_EQ(result["orders"].size(), 5u);
  EXPECT_EQ(result["orders"][0]["warm_ups"], Json::parse("[2, 1]"));
  EXPECT_EQ(result["orders"][4]["order"], "slack");
  for (const Json& order : result["orders"]) {
    EXPECT_GE(order["steps"].size(), 2u);  // more where other work disturbed them
    for (const char* key : {"step_seconds", "ideal_seconds", "activation_bytes"})
      EXPECT_GT(order[key], 0) << key;
    EXPECT_EQ(order["simulated_seconds"], nullptr);  // without costs, nothing is predicted
  }
}

TEST_F(PipelineCommandTest, OneOrderNeedsNoBaseline) {
  ASSERT_EQ(RunTwoRanks("--orders gpipe"), 0) << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"), HasSubstr("gpipe"));
}

TEST_F(PipelineCommandTest, OrdersMayDelayWeightGradients) {
  ASSERT_EQ(RunTwoRanks("--orders 1f1b+send,eager_1f1b+bubble,slack+send"), 0)
      << Printed("rank0") << Printed("rank1");
  const Json result = Json::parse(Printed("json"));
  ASSERT_EQ(result["orders"].size(), 3u);
  EXPECT_EQ(result["orders"][1]["order"], "eager_1f1b+bubble");
  EXPECT_EQ(result["orders"][1]["warm_ups"], Json::parse("[3, 1]"));
  EXPECT_GE(result["orders"][2]["warm_ups"][0], 2);
  EXPECT_EQ(result["orders"][2]["warm_ups"][1], 1);
}

class ChunksTest : public TwoRanksTest {
 protected:
  ChunksTest() : TwoRanksTest("pipeline", 6) {}
};

TEST_F(ChunksTest, EachNumberOfChunksHasAnOracleOfItsOwn) {
  ASSERT_EQ(RunTwoRanks("--chunks 2,3 --orders 1f1b,interleaved_1f1b"), 0)
      << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"), HasSubstr("steps bitwise equal to the serial oracle"));
  const Json result = Json::parse(Printed("json"));
  ASSERT_EQ(result["orders"].size(), 3u);
  EXPECT_EQ(result["orders"][0]["chunks"], 1);
  EXPECT_EQ(result["orders"][1]["order"], "interleaved_1f1b x 2");
  EXPECT_EQ(result["orders"][2]["chunks"], 3);
  for (const Json& order : result["orders"]) EXPECT_GT(order["ideal_seconds"], 0);
}

class FoldedTest : public TwoRanksTest {
 protected:
  FoldedTest() : TwoRanksTest("pipeline", 4) {}
};

TEST_F(FoldedTest, FoldedStagesAreMeasuredBesideOtherOrders) {
  ASSERT_EQ(RunTwoRanks("--orders slack,folded,1f1b_blocking,interleaved_1f1b --chunks 2"), 0)
      << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"),
              HasSubstr("folded, warm-ups 4 3: 2 steps bitwise equal to the serial oracle"));
  const Json result = Json::parse(Printed("json"));
  ASSERT_EQ(result["orders"].size(), 4u);
  EXPECT_EQ(result["orders"][1]["order"], "folded");
  EXPECT_EQ(result["orders"][1]["schedule"], "helix");
  EXPECT_EQ(result["orders"][2]["schedule"], "megatron_sync");
  for (size_t order : {1, 3}) EXPECT_EQ(result["orders"][order]["chunks"], 2);
  for (const Json& order : result["orders"]) {
    EXPECT_GE(order["steps"].size(), 2u);  // more where other work disturbed them
    EXPECT_GT(order["ideal_seconds"], 0);
  }
}

// The default order has a group of its own for the tied head, which folded stages lack.
TEST_F(FoldedTest, FoldedStagesNeedNoOtherOrder) {
  ASSERT_EQ(RunTwoRanks("--orders folded"), 0) << Printed("rank0") << Printed("rank1");
  const Json result = Json::parse(Printed("json"));
  ASSERT_EQ(result["orders"].size(), 1u);
  EXPECT_EQ(result["orders"][0]["order"], "folded");
  EXPECT_GT(result["transfer_seconds"], 0);
}

TEST_F(ChunksTest, RefusesWhatFoldedStagesCannotRun) {
  ExpectRefused(
      {{"--orders folded", "--layers: found 6, expected a multiple of 4 with order folded"},
       {"--orders folded --pp 3 --merge-wgrads 2", "--merge-wgrads: found 2, expected at most 1"},
       {"--orders folded --pp 3 --chunks 2", "--chunks: found 2, expected an order of --orders"},
       {"--orders folded --schedule helix", "--schedule: found helix, expected a schedule without"},
       {"--orders folded+send", "--orders: "}});
}

TEST_F(PipelineCommandTest, RefusesWhatCannotRun) {
  ExpectRefused(
      {{"--pp 3", "--pp: found 3, expected at most the 2 layers of the model"},
       {"--rank 2", "--rank: found 2, expected below 2, the number of ranks"},
       {"--orders zigzag", "--orders: "},
       {"--orders gpipe,gpipe", "--orders: found gpipe twice, expected each order once"},
       {"--orders gpipe+send", "--orders: "},
       {"--orders interleaved_1f1b", "--orders: found interleaved_1f1b, expected --chunks with it"},
       {"--orders 1f1b --chunks 2", "--chunks: found 2, expected an order of --orders that takes"},
       {"--chunks 1", "--chunks: found 1, expected an integer from 2 to 64"},
       {"--chunks 2", "--chunks: found 2, expected"},
       {"--tp 2", "--tp: found 2, expected 1"},
       {"--merge-wgrads 2", "--merge-wgrads: found 2, expected at most 1 with pp_size above 1"},
       {"--rendezvous /nowhere", "--rendezvous: "}});
}

}  // namespace
}  // namespace stretto::bench
