// SPDX-License-Identifier: Apache-2.0

// Every part of a job's spec reaches the ranks that train it.

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/units.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SpecTest : public ClusterTest {};

TEST_F(SpecTest, ALlamaTrainsWithEverythingThatASpecCanAsk) {
  StartCluster();
  const Json job = RunJob(
      {.name = "all",
       .steps = 4,
       .model = "{preset: llama-tiny, dropout: 0.1, norm_epsilon: 1e-6, tied_head: true, "
                "rotary_scaling: {kind: llama3, factor: 8, original_sequence_length: 16}}",
       .wire = "bf16",
       .schedule = "{name: domino_hybrid, parameters: {slices: 2, splits: 2, sequence_parallel: "
                   "true, recompute: full, defer_wgrads: 1, merge_wgrads: 2}}",
       .more = "profile: {steps: 1}\nglobal_batch_size: 8\n"});
  EXPECT_EQ(job["profile"]["verified_parity"], true) << job["profile"];
  EXPECT_EQ(job["spec"]["model"]["family"], "llama");
  EXPECT_EQ(job["spec"]["parallelism"]["wire"], "bf16");
  EXPECT_THAT(
      ReadRun("all", 0, "program.txt"),
      AllOf(HasSubstr("rotary"), HasSubstr("rms_norm"), HasSubstr("swiglu"), HasSubstr("dropout"),
            HasSubstr("reduce_scatter"), HasSubstr(" rec "), HasSubstr("wire=1"),
            HasSubstr("epsilon=1e-06"), HasSubstr("scaling=2 factor=8 low=1 high=4 original=16"),
            Not(HasSubstr("head.weight"))));
  const Outcome described = Stretto({"job", "describe", "all"});
  EXPECT_THAT(described.out,
              AllOf(HasSubstr("llama-tiny: llama, 2 layers, hidden 64, 4 heads on 2 of keys and "
                              "values, sequence 64, dropout 0.1, norm epsilon 1e-06, tied head, "
                              "positions stretched by 8 (llama3)\n"),
                    HasSubstr("domino_hybrid, slices of 2 + 2, 2 splits, tp 2, sequence parallel, "
                              "recompute full, wgrads deferred by 1, wgrads of 2 micro-batches "
                              "merged, wire bf16\n")));
}

// Schedules order the same operations, so a run may go on under another.
TEST_F(SpecTest, ARunResumedUnderAnotherScheduleGoesOnBitByBit) {
  StartCluster();
  const std::string model = "{preset: gpt-tiny, dropout: 0.1}",
                    decay = "optimizer: {decay_steps: 8}\n";
  RunJob({.name = "straight", .steps = 8, .model = model, .more = decay});
  RunJob({.name = "half", .steps = 4, .model = model, .more = decay});
  RunJob({.name = "rest",
          .steps = 8,
          .model = model,
          .schedule = "{name: domino_inter, parameters: {recompute: full}}",
          .more = absl::StrCat(decay, "checkpoint: {resume_from: half}\n")});
  const std::vector<Json> straight = Steps("straight"), rest = Steps("rest");
  ASSERT_EQ(straight.size(), 8u);
  ASSERT_EQ(rest.size(), 4u);
  for (size_t i = 0; i < rest.size(); ++i) {
    for (const char* field : {"loss", "grad_norm"})
      EXPECT_EQ(rest[i][field].dump(), straight[i + 4][field].dump()) << "step " << i + 5;
  }
}

// The resumed run takes its checkpoint's number of micro-batches, though memory allows more.
TEST_F(SpecTest, MergedWeightGradientsLeftToMemoryAreThoseOfTheCheckpoint) {
  StartCluster();
  const std::string batch = "global_batch_size: 16\noptimizer: {decay_steps: 8}\n";
  const auto schedule = [](const char* merge) {
    return absl::StrCat("{name: domino_row, parameters: {", merge, "}}");
  };
  RunJob({.name = "half", .steps = 2, .schedule = schedule("merge_wgrads: 2"), .more = batch});
  const Json rest = RunJob({.name = "rest",
                            .steps = 4,
                            .schedule = schedule("auto_merge_wgrads: true"),
                            .more = absl::StrCat(batch, "checkpoint: {resume_from: half}\n")});
  EXPECT_EQ(rest["merged_wgrads"], 2);
  EXPECT_EQ(Steps("rest").size(), 2u);
  EXPECT_THAT(ReadRun("rest", 1, "trainer.log"),
              HasSubstr("weight gradients merged over 2 of 4 micro-batches, memory allows 4"));
  RunJob({.name = "fresh", .schedule = schedule("auto_merge_wgrads: true"), .more = batch});
  EXPECT_THAT(ReadRun("fresh", 0, "trainer.log"),
              HasSubstr("weight gradients merged over 4 of 4 micro-batches, memory allows 4"));
}

TEST_F(SpecTest, AModelThatDoesNotFitTheNodeIsRefusedAndFailsInPrepareNamingItsArenas) {
  StartCluster();
  const JobFile giant = {.name = "giant", .model = "{preset: gpt3-175b, sequence_length: 64}"};
  const Outcome tried = Stretto(Submit(giant, {"--dry-run", "-o", "json"}));
  EXPECT_EQ(tried.code, 1);
  const Json plan = tried.json();
  const int64_t bytes = Int(plan["plan"]["ranks"][0]["bytes"]);
  const Outcome refused = Stretto(Submit(giant, {}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("giant.yaml: memory of node "),
                                 HasSubstr(absl::StrCat(": found ", FormatBytes(2 * bytes),
                                                        " for the job, expected at most "))));
  EXPECT_EQ(Stretto({"job", "get", "giant"}).code, 1);  // nothing was created
  const Json job = RunJob(giant, "failed");
  const Json prepared = ConditionOf(job, "Prepared");
  EXPECT_EQ(prepared["status"], "false");
  EXPECT_EQ(prepared["reason"], "InsufficientMemory");
  // Two ranks share 174.6e9 parameters of 16 bytes each.
  EXPECT_THAT(prepared["message"].get<std::string>(),
              AllOf(HasSubstr("memory of this node: found "),
                    HasSubstr(" available, expected at "
                              "least 2"),
                    HasSubstr(" for 2 ranks of the job: 1"), HasSubstr(" each (optimizer "),
                    HasSubstr("in prepare")));
  // What a dry run has told before is what the rank's check found.
  EXPECT_EQ(plan["fits"], false);
  EXPECT_THAT(prepared["message"].get<std::string>(),
              HasSubstr(absl::StrCat("expected at least ", FormatBytes(2 * bytes),
                                     " for 2 ranks of the job: ", FormatBytes(bytes), " each")));
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "InsufficientMemory");
  EXPECT_EQ(job["first_failure"]["phase"], "prepare");
  for (const Json& condition : job["conditions"]) EXPECT_NE(condition["type"], "Running");
}

TEST_F(SpecTest, AParameterThatTheScheduleDoesNotTakeIsNamedWithItsLine) {
  StartCoordinator();
  const Outcome outcome = Stretto(
      Submit({.name = "wrong", .schedule = "{name: nanotron, parameters: {splits: 2}}"}, {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(
      outcome.err,
      HasSubstr("wrong.yaml:5:49: spec.schedule.parameters.splits: found 2, expected nothing, "
                "because nanotron takes only slices, slice_sizes, sequence_parallel, "
                "recompute, merge_wgrads, auto_merge_wgrads"));
}

}  // namespace
}  // namespace stretto::integration
