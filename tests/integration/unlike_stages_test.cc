// SPDX-License-Identifier: Apache-2.0

// Jobs whose stages differ in layers and in TP size.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class UnlikeStagesTest : public ClusterTest {
 protected:
  // Six micro-batches through a stage of one layer on two ranks and one of three on one rank.
  static JobFile Unlike(const std::string& name, int steps, const std::string& more = "") {
    return {.name = name,
            .steps = steps,
            .model =
                "{family: gpt, layers: 4, hidden: 64, heads: 4, sequence_length: 64, "
                "vocab_size: 257}",
            .data = "{prefix: text, held_out: 0.2}",
            .stages = "[{layers: 1, tp_size: 2}, {layers: 3, tp_size: 1}]",
            .schedule = "{name: domino_row, parameters: {slices: 2}}",
            .more = absl::StrCat("global_batch_size: 24\noptimizer: {decay_steps: 8}\n", more)};
  }
  // The same model, data and batch in one stage.
  static JobFile OneStage(const std::string& name, int steps, const std::string& more = "") {
    JobFile one = Unlike(name, steps, more);
    one.stages = "";
    return one;
  }
};

TEST_F(UnlikeStagesTest, TrainAndEvaluateAsOneStageDoes) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 1);
  const std::string eval = "eval: {interval_steps: 3, batches: 3}\n";
  const Json job = RunJob(Unlike("unlike", 6, eval));
  EXPECT_EQ(ConditionOf(job, "Scheduled")["message"], "3 ranks on node-a, node-b");
  EXPECT_EQ(job["placement"][0]["worker"], job["placement"][1]["worker"]);
  const std::string program = ReadRun("unlike", 2, "program.txt");
  EXPECT_THAT(program, HasSubstr("group pp 0,1,2\n"));
  EXPECT_THAT(program, HasSubstr("group pp.tied.1-2 1,2\n"));
  EXPECT_THAT(Stretto({"job", "describe", "unlike"}).out,
              HasSubstr(", layers 1 x tp 2 + 3 x tp 1, pp 2 1f1b"));

  RunJob(OneStage("one", 6, eval));
  ExpectNear(Losses("unlike"), Losses("one"));
  const auto evaluated = [&](const std::string& name) {
    return Steps(name)[2]["evaluation"]["loss"].get<double>();
  };
  EXPECT_NEAR(evaluated("unlike"), evaluated("one"), 1e-5 * evaluated("one"));
}

TEST_F(UnlikeStagesTest, NoTransferChangesABit) {
  StartCoordinator();
  StartWorker("node-a", 3);
  for (const std::string transfer : {"send", "chain", "gather"}) {
    JobFile job = Unlike(transfer, 3);
    // Forward from one rank to two, where the ways differ.
    job.stages = "[{layers: 3, tp_size: 1}, {layers: 1, tp_size: 2}]";
    job.schedule = absl::StrCat(
        "{name: domino_row, parameters: {slices: 2}, pipeline: {transfer: ", transfer, "}}");
    RunJob(job);
  }
  EXPECT_EQ(Losses("chain"), Losses("send"));
  EXPECT_EQ(Losses("gather"), Losses("send"));
  EXPECT_THAT(ReadRun("chain", 2, "program.txt"), HasSubstr("group pp.0-1.0-1-2 0,1,2\n"));
  EXPECT_THAT(ReadRun("gather", 2, "program.txt"), HasSubstr("group pp.0-1.1-2 1,2\n"));
}

// The second stage is killed; replicas of one stage continue, and other unlike stages after them.
TEST_F(UnlikeStagesTest, AJobThatLostAStageGoesOnUnderOtherLayouts) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  RunJob(OneStage("whole", 8));
  LoseARank(Unlike("lost", 8), 2);

  JobFile replicas = OneStage("replicas", 6, "checkpoint: {resume_from: lost/step-00000004}\n");
  replicas.tp_size = 1;
  replicas.dp_size = 2;
  const Json job = RunJob(replicas);
  EXPECT_EQ(ConditionOf(job, "ResumedExactly")["reason"], "OtherLayout");
  JobFile other = Unlike("rest", 8, "checkpoint: {resume_from: replicas}\n");
  other.stages = "[{layers: 2, tp_size: 1}, {layers: 1, tp_size: 2}, {layers: 1, tp_size: 1}]";
  RunJob(other);
  std::vector<double> resumed = Losses("replicas");
  for (double loss : Losses("rest")) resumed.push_back(loss);
  const std::vector<double> whole = Losses("whole");
  ExpectNear(resumed, {whole.begin() + 4, whole.end()});
}

TEST_F(UnlikeStagesTest, GoOnFromACheckpointBitByBit) {
  StartCoordinator();
  StartWorker("node-a", 6);
  const auto shared = [](const std::string& name, int steps, const std::string& more = "") {
    JobFile job = Unlike(name, steps, more);
    job.dp_size = 2;
    job.zero = 1;
    return job;
  };
  RunJob(shared("whole", 6));
  RunJob(shared("half", 3));
  RunJob(shared("rest", 6, "checkpoint: {resume_from: half}\n"));
  const std::vector<double> whole = Losses("whole");
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(Losses("rest"), std::vector<double>(whole.begin() + 3, whole.end()));
}

TEST_F(UnlikeStagesTest, TheExampleRunsAsItStands) {
  StartCoordinator();
  StartWorker("node-a", 3);
  RunExample("unlike-stages");
  EXPECT_THAT(Stretto({"job", "describe", "unlike-stages"}).out,
              HasSubstr(", layers 3 x tp 2 + 1 x tp 1, pp 2 eager_1f1b, transfers: gather"));
}

}  // namespace
}  // namespace stretto::integration
