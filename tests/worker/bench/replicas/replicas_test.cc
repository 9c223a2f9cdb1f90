// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/worker/bench/testing/two_ranks.h"
#include "worker/bench/replicas/measure.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class ReplicasCommandTest : public TwoRanksTest {
 protected:
  ReplicasCommandTest() : TwoRanksTest("replicas") {}
};

TEST_F(ReplicasCommandTest, EveryVariantPassesParityAndHasAllFigures) {
  ASSERT_EQ(RunTwoRanks(""), 0) << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"), HasSubstr("zero: 2 steps bitwise equal to the serial oracle"));
  const Json result = Json::parse(Printed("json"));
  EXPECT_EQ(result["dp_size"], 2);
  const Json& variants = result["variants"];
  ASSERT_EQ(variants.size(), 3u);
  for (const Json& variant : variants) {
    EXPECT_GE(variant["steps"].size(), 2u);  // more where other work disturbed them
    for (const char* key : {"step_seconds", "compute_seconds", "comm_seconds", "ideal_seconds"})
      EXPECT_GT(variant[key], 0) << key;
  }
  EXPECT_EQ(variants[0]["schedule"], "megatron_sync");
  EXPECT_EQ(variants[2]["zero"], 1);
  EXPECT_LT(variants[2]["optimizer_bytes"], variants[1]["optimizer_bytes"].get<int64_t>() * 0.6);
}

TEST(VariantResultTest, HiddenIsTheSmallerOfWhatOverlappedAndWhatItSaved) {
  VariantResult result{.name = "", .spec = {}, .steps = {3, 1, 2}};
  result.compute = 1.5;
  result.comm = 1;
  result.comm_cpu = 0.25;
  result.hidden_interval = 0.75;
  EXPECT_EQ(result.median(), 2);
  EXPECT_EQ(result.ideal(), 1.75);
  EXPECT_EQ(result.most_hidden(), 0.75);
  EXPECT_EQ(result.hidden(), 0.5);  // 2.5 without overlap
  result.hidden_interval = 0.25;
  EXPECT_EQ(result.hidden(), 0.25);
  result.steps = {3};
  EXPECT_EQ(result.hidden(), 0);
  result.comm = 4;
  EXPECT_EQ(result.ideal(), 4);
}

TEST_F(ReplicasCommandTest, RefusesWhatCannotRun) {
  ExpectRefused({{"--dp 1", "--dp: "},
                 {"--rank 2", "--rank: found 2, expected below 2, the number of ranks"},
                 {"--tp 2", "--tp: found 2, expected 1"},
                 {"--schedule zigzag", "--schedule: "},
                 {"--rendezvous /nowhere", "--rendezvous: "}});
}

}  // namespace
}  // namespace stretto::bench
