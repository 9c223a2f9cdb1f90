// SPDX-License-Identifier: Apache-2.0

// Loss on held-out data, and jobs that end because it stops improving.

#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// "held" has the tokens of "text".
class EvaluationTest : public ClusterTest {
 protected:
  EvaluationTest() {
    for (const char* end : {".bin", ".idx", ".tokenizer.json"}) {
      std::filesystem::copy_file(Path(absl::StrCat("data/text", end)),
                                 Path(absl::StrCat("data/held", end)));
    }
  }
};

// Of the steps that were evaluated.
std::map<int64_t, double> HeldOutLosses(const std::vector<Json>& steps) {
  std::map<int64_t, double> losses;
  for (const Json& step : steps) {
    if (step.contains("evaluation")) {
      losses[Int(step["step"])] = step["evaluation"]["loss"].get<double>();
    }
  }
  return losses;
}

double LedgerSum(const Json& ledger, const std::string& part = "") {
  double sum = 0;
  for (const Json& entry : ledger.at("entries")) {
    if (part.empty() || entry.at("part") == part) sum += entry.at("seconds").get<double>();
  }
  return sum;
}

TEST_F(EvaluationTest, AJobMeasuresItselfAtAnyTpSizeAndTellsItEverywhere) {
  StartCluster();
  const std::string eval = "eval: {interval_steps: 2, batches: 3, prefix: held}\n";
  RunJob(
      {.name = "one", .steps = 5, .tp_size = 1, .schedule = "{name: megatron_sync}", .more = eval});
  const Json job = RunJob({.name = "two", .steps = 5, .more = eval});
  const std::map<int64_t, double> one = HeldOutLosses(Steps("one"));
  const std::map<int64_t, double> two = HeldOutLosses(Steps("two"));
  ASSERT_EQ(one.size(), 3u);
  ASSERT_EQ(two.size(), 3u);
  for (int64_t step : {2, 4, 5}) {
    // A few steps of another order of sums apart.
    EXPECT_NEAR(two.at(step), one.at(step), 1e-4 * one.at(step)) << step;
  }
  EXPECT_LT(one.at(5), one.at(2));

  const Json& progress = job["progress"];
  EXPECT_EQ(Int(progress["last_evaluation_step"]), 5);
  EXPECT_EQ(progress["last_evaluation"]["loss"].get<double>(), two.at(5));
  for (const Json& ledger : progress["rank_ledgers"]) {
    const double wall = ledger["wall_seconds"].get<double>();
    EXPECT_NEAR(LedgerSum(ledger), wall, 0.01 * wall);
    EXPECT_GT(LedgerSum(ledger, "evaluation"), 0);
  }
  EXPECT_THAT(Stretto({"job", "describe", "two"}).out, HasSubstr("Held out:    loss "));
  EXPECT_THAT(Stretto({"job", "watch", "two"}).out, HasSubstr("  held-out loss "));
  EXPECT_THAT(Metrics(worker_ports_["node-a"]),
              HasSubstr("stretto_eval_loss{training_job=\"two\",rank=\"1\"} "));

  const Outcome csv = Stretto({"job", "metrics", "two"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_THAT(csv.out, StartsWith("step,loss,grad_norm,learning_rate,tokens,wall_seconds,"));
  const std::vector<std::string> lines = absl::StrSplit(csv.out, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 6u);
  const Json rows = Stretto({"job", "metrics", "two", "-o", "json", "--steps", "4:"}).json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["step"], 5);
  EXPECT_EQ(rows[1]["held_out_loss"].get<double>(), two.at(5));
}

// The first loss is better than none, and no later one by so much.
std::string Rule(int patience) {
  return absl::StrCat("eval: {interval_steps: 2, batches: 1, prefix: held, early_stop: {patience: ",
                      patience, ", min_improvement: 1000}}\n");
}

TEST_F(EvaluationTest, AJobThatGainsNothingEndsEarlyWithItsCheckpoint) {
  StartCluster();
  const Json job = RunJob({.name = "early", .steps = 100, .more = Rule(1)});
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["status"], "true");
  EXPECT_EQ(ended["reason"], "EarlyStopped");
  EXPECT_THAT(ended["message"].get<std::string>(), StartsWith("step 4 of 100: held-out loss "));
  EXPECT_EQ(Int(job["progress"]["steps"]), 4);
  EXPECT_EQ(job["progress"]["last_checkpoint"], "step-00000004");
  EXPECT_EQ(NumbersOf(Steps("early")), Range(1, 4));
  EXPECT_THAT(Stretto({"job", "watch", "early"}).out,
              HasSubstr("\nstopped early: step 4 of 100: "));
}

// The learning rate grows until training diverges, so the last checkpoint is not the best one.
TEST_F(EvaluationTest, TheBestCheckpointStaysAndCanBeChosen) {
  StartCluster();
  const std::string rates =
      "optimizer: {learning_rate: 1.0, warmup_steps: 20, decay_steps: 20, clip_norm: 0}\n"
      "eval: {interval_steps: 2, batches: 3, prefix: held}\n";
  const Json job =
      RunJob({.name = "peak",
              .steps = 20,
              .more = rates + "checkpoint: {interval_steps: 2, keep: 1, keep_best: true}\n"});
  std::pair<double, int64_t> best = {std::numeric_limits<double>::infinity(), 0};
  for (const auto& [step, loss] : HeldOutLosses(Steps("peak"))) best = std::min(best, {loss, step});
  ASSERT_LT(best.second, 20) << "training did not diverge";
  const std::string name = absl::StrFormat("step-%08d", best.second);
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(CheckpointFolder("peak")))
    folders.insert(entry.path().filename());
  EXPECT_EQ(folders, (std::set<std::string>{name, "step-00000020"}));
  EXPECT_EQ(job["progress"]["best_checkpoint"], name);
  EXPECT_THAT(Stretto({"job", "describe", "peak"}).out, HasSubstr("checkpoint " + name));
  Process model({STRETTO_BINARY_DIR "/stretto-model", "checkpoint", "inspect",
                 CheckpointFolder("peak") + "/best"},
                Path("inspect"));
  EXPECT_EQ(model.Wait(), 0) << model.err();
  EXPECT_THAT(model.out(), HasSubstr(name));
  RunJob({.name = "again",
          .steps = static_cast<int>(best.second) + 2,
          .more = rates + "checkpoint: {resume_from: peak/best}\n"});
  EXPECT_EQ(NumbersOf(Steps("again")),
            Range(static_cast<int>(best.second) + 1, static_cast<int>(best.second) + 2));
}

// Nothing asks for the best checkpoint, and `keep` alone would have removed it.
TEST_F(EvaluationTest, AJobThatEndsEarlyKeepsItsBestCheckpoint) {
  StartCluster();
  const Json job = RunJob(
      {.name = "rising",
       .steps = 60,
       .more = "optimizer: {learning_rate: 1.0, warmup_steps: 20, decay_steps: 20, clip_norm: 0}\n"
               "eval: {interval_steps: 2, batches: 3, prefix: held, early_stop: {patience: 3}}\n"
               "checkpoint: {interval_steps: 2, keep: 1}\n"});
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "EarlyStopped");
  std::pair<double, int64_t> best = {std::numeric_limits<double>::infinity(), 0};
  for (const auto& [step, loss] : HeldOutLosses(Steps("rising")))
    best = std::min(best, {loss, step});
  const std::string name = absl::StrFormat("step-%08d", best.second);
  EXPECT_NE(job["progress"]["last_checkpoint"], name);
  EXPECT_EQ(job["progress"]["best_checkpoint"], name);
  EXPECT_TRUE(std::filesystem::exists(CheckpointFolder("rising") + "/" + name));
}

// A run that forgot what was counted would go on to step 12.
TEST_F(EvaluationTest, WhatWasCountedSurvivesAResume) {
  StartCluster();
  const std::string optimizer = "optimizer: {decay_steps: 100}\n";
  RunJob({.name = "first", .steps = 4, .more = Rule(3) + optimizer});
  const Json job = RunJob({.name = "second",
                           .steps = 100,
                           .more = Rule(3) + optimizer + "checkpoint: {resume_from: first}\n"});
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "EarlyStopped");
  EXPECT_EQ(Int(job["progress"]["steps"]), 8);
}

TEST_F(EvaluationTest, TooLittleHeldOutDataFailsTheJobBeforeItTrains) {
  StartCluster();
  const Json job = RunJob(
      {.name = "short", .more = "eval: {interval_steps: 2, batches: 1000000, prefix: held}\n"},
      "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "DataInvalid");
  EXPECT_THAT(job["first_failure"]["message"].get<std::string>(),
              HasSubstr("eval.batches: found 1000000 batches of 4 sequences, expected at most "));
  EXPECT_EQ(Int(job["progress"].value("steps", Json("0"))), 0);
}

}  // namespace
}  // namespace stretto::integration
