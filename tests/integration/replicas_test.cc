// SPDX-License-Identifier: Apache-2.0

// Jobs with several replicas of the model.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class ReplicasTest : public ClusterTest {
 protected:
  // Four sequences of a micro-batch on each of two replicas, of two ranks each.
  static JobFile Four(const std::string& name, int steps, const std::string& more = "") {
    return {.name = name,
            .steps = steps,
            .data = "{prefix: text, held_out: 0.2}",
            .dp_size = 2,
            .more = absl::StrCat("global_batch_size: 16\noptimizer: {decay_steps: 8}\n", more)};
  }
};

TEST_F(ReplicasTest, EachIsPlacedWholeAndTheyTrainAsOneDoes) {
  StartCoordinator();
  StartWorker("node-a", 3);
  StartWorker("node-b", 2);
  const Json job = RunJob(Four("four", 6, "profile: {steps: 1}\n"));
  EXPECT_EQ(ConditionOf(job, "Scheduled")["message"], "4 ranks on node-a, node-b");
  ASSERT_EQ(job["placement"].size(), 4u);
  EXPECT_EQ(job["placement"][0]["worker"], job["placement"][1]["worker"]);
  EXPECT_EQ(job["placement"][2]["worker"], job["placement"][3]["worker"]);
  EXPECT_EQ(job["profile"]["verified_parity"], true) << job["profile"];
  const std::string program = ReadRun("four", 3, "program.txt");
  EXPECT_THAT(program, HasSubstr("group tp 2,3\n"));
  EXPECT_THAT(program, HasSubstr("group dp 1,3\n"));
  const Outcome described = Stretto({"job", "describe", "four"});
  EXPECT_THAT(described.out, HasSubstr(", tp 2, dp 2"));
  EXPECT_THAT(described.out, HasSubstr("exposed dp"));

  JobFile one = Four("one", 6);
  one.dp_size = 1;
  RunJob(one);
  const std::vector<double> found = Losses("four"), expected = Losses("one");
  ASSERT_EQ(found.size(), 6u);
  // The first step has the same activations; then gradients were added in another order.
  EXPECT_EQ(found[0], expected[0]);
  for (size_t step = 1; step < found.size(); ++step)
    EXPECT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << "step " << step + 1;
  EXPECT_LT(found.back(), found.front());
  EXPECT_EQ(Steps("four")[0]["tokens"], Steps("one")[0]["tokens"]);
}

TEST_F(ReplicasTest, GoOnFromACheckpointBitByBitAndEvaluateAsOneDoes) {
  StartCoordinator();
  StartWorker("node-a", 4);
  const std::string eval = "eval: {interval_steps: 4, batches: 3}\n";
  RunJob(Four("whole", 8, eval));
  RunJob(Four("half", 4, eval));
  const auto half = Checkpoint::Open(CheckpointFolder("half") + "/step-00000004");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->manifest().state.world_size, 4);
  const Json rest =
      RunJob(Four("rest", 8, absl::StrCat(eval, "checkpoint: {resume_from: half}\n")));
  const std::vector<double> whole = Losses("whole"), resumed = Losses("rest");
  ASSERT_EQ(whole.size(), 8u);
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 4, whole.end()));

  JobFile one = Four("one", 4, eval);
  one.dp_size = 1;
  RunJob(one);
  const auto evaluated = [&](const std::string& name) {
    return Steps(name)[3]["evaluation"]["loss"].get<double>();
  };
  EXPECT_NEAR(evaluated("half"), evaluated("one"), 1e-5 * evaluated("one"));
}

// Four ranks on two nodes, one of which is killed; then one rank continues.
TEST_F(ReplicasTest, AJobThatLostARankGoesOnUnderAnotherLayout) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  RunJob(Four("whole", 8));
  LoseARank(Four("lost", 8), 3);

  JobFile rest = Four("rest", 8, "checkpoint: {resume_from: lost/step-00000004}\n");
  rest.tp_size = rest.dp_size = 1;
  rest.schedule = "{name: megatron_sync}";
  const Json job = RunJob(rest);
  const Json condition = ConditionOf(job, "ResumedExactly");
  EXPECT_EQ(condition["status"], "false");
  EXPECT_EQ(condition["reason"], "OtherLayout");
  const std::vector<double> whole = Losses("whole"), resumed = Losses("rest");
  ASSERT_EQ(resumed.size(), 4u);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_NEAR(resumed[step], whole[step + 4], 1e-5 * whole[step + 4]) << "step " << step + 5;
}

TEST_F(ReplicasTest, TheExamplesRunAsTheyStand) {
  StartCoordinator();
  StartWorker("node-a", 4);
  for (const char* example : {"replicas", "zero"}) {
    RunExample(example);
    EXPECT_EQ(NumbersOf(Steps(example)), Range(1, 20));
  }
}

// With shared updates, losses are those of plain replicas bit by bit, and a run that lost a rank
// continues without them bit by bit.
TEST_F(ReplicasTest, SharedUpdatesChangeNoBit) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  const std::string eval = "eval: {interval_steps: 4, batches: 3}\n";
  RunJob(Four("plain", 8, eval));
  JobFile shared = Four("shared", 8, eval);
  shared.zero = 1;
  const Json job = RunJob(shared);
  EXPECT_THAT(ReadRun("shared", 3, "program.txt"),
              HasSubstr(" reduce_scatter layers.0.attention "));
  EXPECT_THAT(Stretto({"job", "describe", "shared"}).out, HasSubstr(", tp 2, dp 2 zero 1"));
  const std::vector<double> plain = Losses("plain");
  ASSERT_EQ(plain.size(), 8u);
  EXPECT_EQ(Losses("shared"), plain);
  EXPECT_EQ(Steps("shared")[3]["evaluation"]["loss"], Steps("plain")[3]["evaluation"]["loss"]);
  JobFile lost = Four("lost", 8);
  lost.zero = 1;
  LoseARank(lost, 3);
  RunJob(Four("rest", 8, "checkpoint: {resume_from: lost/step-00000004}\n"));
  EXPECT_EQ(Losses("rest"), std::vector<double>(plain.begin() + 4, plain.end()));
}

TEST_F(ReplicasTest, ABatchThatTheyCannotShareIsRefusedNamingTheField) {
  StartCoordinator();
  JobFile odd = Four("odd", 4);
  odd.dp_size = 3;
  const Outcome outcome = Stretto(Submit(odd, {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("spec.global_batch_size: found 16, expected a multiple of "
                                     "micro_batch_size 4 x dp_size 3"));
}

}  // namespace
}  // namespace stretto::integration
