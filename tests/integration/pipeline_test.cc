// SPDX-License-Identifier: Apache-2.0

// Jobs whose model is in several stages.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class PipelineTest : public ClusterTest {
 protected:
  // Six micro-batches through two stages of two ranks each.
  static JobFile Staged(const std::string& name, int steps, const std::string& more = "") {
    return {
        .name = name,
        .steps = steps,
        .data = "{prefix: text, held_out: 0.2}",
        .pp_size = 2,
        .schedule = "{name: domino_row, parameters: {slices: 2}, pipeline: {order: eager_1f1b}}",
        .more = absl::StrCat("global_batch_size: 24\noptimizer: {decay_steps: 8}\n", more)};
  }
  static JobFile OneStage(const std::string& name, int steps, const std::string& more = "") {
    JobFile one = Staged(name, steps, more);
    one.pp_size = 1;
    one.schedule = "{name: domino_row, parameters: {slices: 2}}";
    return one;
  }
};

TEST_F(PipelineTest, StagesOnTwoNodesTrainAndEvaluateAsOneStageDoes) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  const std::string eval = "eval: {interval_steps: 3, batches: 3}\n";
  const Json job = RunJob(Staged("staged", 6, eval));
  EXPECT_EQ(ConditionOf(job, "Scheduled")["message"], "4 ranks on node-a, node-b");
  EXPECT_EQ(job["placement"][0]["worker"], job["placement"][1]["worker"]);
  EXPECT_EQ(job["placement"][2]["worker"], job["placement"][3]["worker"]);
  const std::string program = ReadRun("staged", 3, "program.txt");
  EXPECT_THAT(program, HasSubstr("group tp 2,3\n"));
  EXPECT_THAT(program, HasSubstr("group pp.0-1 1,3\n"));
  EXPECT_THAT(program, HasSubstr("group pp.1-0 3,1\n"));
  const Outcome described = Stretto({"job", "describe", "staged"});
  EXPECT_THAT(described.out, HasSubstr(", tp 2, pp 2 eager_1f1b"));

  RunJob(OneStage("one", 6, eval));
  const std::vector<double> found = Losses("staged"), expected = Losses("one");
  ExpectNear(found, expected);
  EXPECT_EQ(found[0], expected[0]);
  EXPECT_LT(found.back(), found.front());
  const auto evaluated = [&](const std::string& name) {
    return Steps(name)[2]["evaluation"]["loss"].get<double>();
  };
  EXPECT_NEAR(evaluated("staged"), evaluated("one"), 1e-5 * evaluated("one"));
}

TEST_F(PipelineTest, WarmUpsByHandAndDelayedWeightGradientsChangeNoBit) {
  StartCoordinator();
  StartWorker("node-a", 4);
  JobFile delayed = Staged("delayed", 3);
  delayed.schedule =
      "{name: domino_row, parameters: {slices: 2}, "
      "pipeline: {warm_up: [4, 1], wgrad_delay: bubble}}";
  RunJob(Staged("plain", 3));
  RunJob(delayed);
  EXPECT_EQ(Losses("delayed"), Losses("plain"));
  EXPECT_THAT(Stretto({"job", "describe", "delayed"}).out,
              HasSubstr(", pp 2 1f1b, warm-ups 4 1, wgrads delayed: bubble"));
}

// On a link whose transfers take far longer than a pass: one micro-batch more for each of the two
// periods that the way there and back takes, or for one of them where passes are slow.
TEST_F(PipelineTest, RanksChooseWarmUpsByWhatTheyMeasureAndChangeNoBit) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const auto file = [](const std::string& name, int steps, const std::string& pipeline,
                       const std::string& more = "") {
    JobFile job = Staged(
        name, steps,
        absl::StrCat("emulated_link: {gigabits_per_second: 100, latency_microseconds: 20000}\n",
                     more));
    job.tp_size = 1;
    job.schedule =
        absl::StrCat("{name: domino_row, parameters: {slices: 2}, pipeline: ", pipeline, "}");
    return job;
  };
  const JobFile chosen = file("chosen", 4, "{auto_warm_up: true}");
  const Outcome tried = Stretto(Submit(chosen, {"--dry-run"}));
  EXPECT_THAT(tried.out, HasSubstr("auto_warm_up chooses warm-ups when the ranks prepare: this is "
                                   "the least it can be."));
  const Json job = RunJob(chosen);
  ASSERT_EQ(job["warm_ups"].size(), 2u) << job["warm_ups"];
  const int first = job["warm_ups"][0];
  EXPECT_GE(first, 3);
  EXPECT_LE(first, 4);
  EXPECT_EQ(job["warm_ups"][1], 1);
  const std::string described = Stretto({"job", "describe", "chosen"}).out;
  EXPECT_THAT(described, HasSubstr(", pp 2 1f1b, warm-ups by measured times"));
  EXPECT_THAT(described, HasSubstr(absl::StrCat("Warm-ups:    ", first,
                                                " 1, by measured times and as memory allowed\n")));
  for (int rank : {0, 1}) {
    const std::string log = ReadRun("chosen", rank, "trainer.log");
    EXPECT_THAT(log, HasSubstr("seconds of a micro-batch, forward/backward: stages "));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("warm-ups ", first, " 1 of 6 micro-batches")));
  }
  RunJob(file("plain", 8, "{order: 1f1b}"));
  const std::vector<double> plain = Losses("plain"), found = Losses("chosen");
  EXPECT_EQ(found, std::vector<double>(plain.begin(), plain.begin() + 4));

  // A run that resumes chooses anew and continues bit by bit.
  const Json rest =
      RunJob(file("rest", 8, "{auto_warm_up: true}", "checkpoint: {resume_from: chosen}\n"));
  EXPECT_EQ(rest["warm_ups"].size(), 2u);
  EXPECT_EQ(Losses("rest"), std::vector<double>(plain.begin() + 4, plain.end()));
}

TEST_F(PipelineTest, GoesOnFromACheckpointBitByBit) {
  StartCoordinator();
  StartWorker("node-a", 4);
  RunJob(Staged("whole", 8));
  RunJob(Staged("half", 4));
  const auto half = Checkpoint::Open(CheckpointFolder("half") + "/step-00000004");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->manifest().state.world_size, 4);
  RunJob(Staged("rest", 8, "checkpoint: {resume_from: half}\n"));
  const std::vector<double> whole = Losses("whole"), resumed = Losses("rest");
  ASSERT_EQ(whole.size(), 8u);
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 4, whole.end()));
}

// The last stage is killed; then two replicas of the whole model continue, and stages after them.
TEST_F(PipelineTest, AJobThatLostAStageGoesOnUnderOtherLayouts) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  RunJob(Staged("whole", 8));
  LoseARank(Staged("lost", 8), 3);

  JobFile replicas = OneStage("replicas", 6, "checkpoint: {resume_from: lost/step-00000004}\n");
  replicas.tp_size = 1;
  replicas.dp_size = 2;
  const Json job = RunJob(replicas);
  EXPECT_EQ(ConditionOf(job, "ResumedExactly")["reason"], "OtherLayout");
  RunJob(Staged("rest", 8, "checkpoint: {resume_from: replicas}\n"));
  std::vector<double> resumed = Losses("replicas");
  for (double loss : Losses("rest")) resumed.push_back(loss);
  const std::vector<double> whole = Losses("whole");
  ExpectNear(resumed, {whole.begin() + 4, whole.end()});
}

// Four layers, in one stage and in two of two chunks each.
JobFile FourLayers(const std::string& name, int steps, const std::string& more) {
  return {.name = name,
          .steps = steps,
          .model =
              "{family: gpt, layers: 4, hidden: 64, heads: 4, sequence_length: 64, "
              "vocab_size: 257, tied_head: false}",
          .data = "{prefix: text, held_out: 0.2}",
          .tp_size = 1,
          .more = absl::StrCat("global_batch_size: 16\noptimizer: {decay_steps: 8}\n", more)};
}
JobFile Interleaved(const std::string& name, int steps, const std::string& more = "") {
  JobFile job = FourLayers(name, steps, more);
  job.pp_size = 2;
  job.chunks_per_stage = 2;
  job.schedule = "{name: domino_row, parameters: {slices: 2}, pipeline: {order: interleaved_1f1b}}";
  return job;
}

// Without a tied head nothing rounds differently. Three batches are no multiple of the stages.
TEST_F(PipelineTest, InterleavedStagesTrainAndEvaluateAsOneStageDoesBitByBit) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const std::string eval = "eval: {interval_steps: 3, batches: 3}\n";
  const Json dry = Stretto(Submit(Interleaved("dry", 6), {"--dry-run", "-o", "json"})).json();
  EXPECT_EQ(dry["plan"]["ranks"].size(), 2);
  RunJob(Interleaved("chunks", 6, eval));
  const std::string program = ReadRun("chunks", 0, "program.txt");
  EXPECT_THAT(program, HasSubstr("group pp.wrap.1-0 1,0\n"));
  EXPECT_THAT(program, HasSubstr("group pp.wrap.0-1 0,1\n"));
  EXPECT_THAT(Stretto({"job", "describe", "chunks"}).out,
              HasSubstr(", pp 2 interleaved_1f1b, 2 chunks per stage"));
  RunJob(FourLayers("one", 6, eval));
  EXPECT_EQ(Losses("chunks"), Losses("one"));
  const auto evaluated = [&](const std::string& name) {
    return Steps(name)[2]["evaluation"]["loss"].get<double>();
  };
  EXPECT_EQ(evaluated("chunks"), evaluated("one"));
}

// The last stage is killed. Stages of one chunk go on, and chunks after them: the same layers are
// then on other ranks, and the numbers are those of a run that was never cut.
TEST_F(PipelineTest, AJobThatLostItsChunksGoesOnUnderOtherLayoutsBitByBit) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  RunJob(Interleaved("whole", 8));
  LoseARank(Interleaved("lost", 8), 1);

  JobFile stages = FourLayers("stages", 6, "checkpoint: {resume_from: lost/step-00000004}\n");
  stages.pp_size = 2;
  const Json job = RunJob(stages);
  EXPECT_EQ(ConditionOf(job, "ResumedExactly")["reason"], "OtherLayout");
  RunJob(Interleaved("rest", 8, "checkpoint: {resume_from: stages}\n"));
  std::vector<double> resumed = Losses("stages");
  for (double loss : Losses("rest")) resumed.push_back(loss);
  const std::vector<double> whole = Losses("whole");
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 4, whole.end()));
}

JobFile Folded(const std::string& name, int steps, const std::string& more = "") {
  JobFile job = FourLayers(name, steps, more);
  job.pp_size = 2;
  job.schedule = "{name: helix, parameters: {slices: 2}, pipeline: {order: folded}}";
  return job;
}

// Stages go on with the layers of folded ones, and folded ones after them. The weights come out as
// those of one stage, though the first rank writes the first and the last layer.
TEST_F(PipelineTest, FoldedStagesTrainAndResumeAsOneStageDoesBitByBit) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const std::string eval = "eval: {interval_steps: 3, batches: 3}\n";
  RunJob(FourLayers("one", 8, eval));
  LoseARank(Folded("lost", 8), 1);
  EXPECT_THAT(Stretto({"job", "describe", "lost"}).out,
              HasSubstr(", pp 2 folded, 2 chunks per stage"));
  RunJob(Interleaved("stages", 6, "checkpoint: {resume_from: lost/step-00000004}\n"));
  RunJob(Folded("rest", 8, absl::StrCat("checkpoint: {resume_from: stages}\n", eval)));
  std::vector<double> resumed = Losses("stages");
  for (double loss : Losses("rest")) resumed.push_back(loss);
  const std::vector<double> whole = Losses("one");
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 4, whole.end()));

  const auto exported = [&](const std::string& name) {
    Process model({STRETTO_BINARY_DIR "/stretto-model", "checkpoint", "export",
                   CheckpointFolder(name), "--format", "hf", "--output", Path(name + "-hf")},
                  Path(name + "-export"));
    EXPECT_EQ(model.Wait(), 0) << model.err();
    return ReadFile(Path(name + "-hf/model.safetensors")).value_or("");
  };
  const std::string one = exported("one");
  EXPECT_GT(one.size(), size_t{4} * 4 * 64 * 64 * 4);
  EXPECT_TRUE(exported("rest") == one);
}

TEST_F(PipelineTest, TheExamplesRunAsTheyStand) {
  StartCoordinator();
  StartWorker("node-a", 4);
  for (const char* example : {"pipeline", "interleaved", "folded"}) {
    RunExample(example);
    EXPECT_EQ(NumbersOf(Steps(example)), Range(1, 20));
  }
}

TEST_F(PipelineTest, MoreStagesThanLayersAreRefusedNamingTheField) {
  StartCoordinator();
  JobFile many = Staged("many", 4);
  many.pp_size = 3;
  const Outcome outcome = Stretto(Submit(many, {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("spec.parallelism.pp_size: found 3, expected at most the 2 "
                                     "layers of the model"));
}

}  // namespace
}  // namespace stretto::integration
