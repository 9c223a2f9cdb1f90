// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_pipeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "proto/spec/pipelines.h"
#include "tests/golden_messages.h"
#include "tests/worker/bench/testing/sim_run.h"
#include "worker/bench/options/sim_options.h"
#include "worker/bench/sim_command.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

nlohmann::json Rows(const std::string& arguments) {
  const SimRun run = Sim(absl::StrCat(arguments, " --json"));
  EXPECT_EQ(run.code, 0) << arguments << ": " << run.err;
  if (run.code != 0) return {};
  const nlohmann::json result = nlohmann::json::parse(run.out);
  EXPECT_EQ(result["simulated"], true);
  return result["pipelines"];
}

constexpr char kSmall[] = "--layers 4 --tp 1 --micro-batch 1 --micro-batches 8 ";

TEST(SimPipelineCommandTest, TheTableHasEveryOrderAtEachNumberOfStages) {
  const SimRun run = Sim(absl::StrCat(kSmall, "--pp 2,4"));
  EXPECT_EQ(run.code, 0) << run.err;
  std::vector<std::string> facts = {"SIMULATED"};
  for (const PipelineRules& rules : kPipelines) {
    if (!rules.chunked) facts.emplace_back(rules.name);
  }
  GoldenMessages("stretto-bench").Add(run.out, facts);
}

// One rank of each stage stands for its replicas and its other shards. Under contention, what the
// first shard alone squares for the norm slows down collectives of the others a little.
TEST(SimPipelineCommandTest, OneRankOfAStageStandsForTheOthers) {
  for (const char* nodes : {"", " --ranks-per-node 2 --node-gbps 8", " --ranks-per-node 4"}) {
    for (const char* contention : {"", " --contention 0.2 --link-contention 0.1"}) {
      const std::string flags = absl::StrCat(
          "--schedule domino_row --tp 2 --dp 2 --pp 2 --layers 4 --micro-batch 2 --micro-batches 4 "
          "--latency-us 20 --pipeline 1f1b",
          nodes, contention);
      const auto options =
          ParseSimOptions(absl::StrSplit(absl::StrCat(flags), ' ', absl::SkipEmpty()));
      ASSERT_TRUE(options.ok()) << options.status();
      const EngineSpec spec = options->pipelines.at(0).at(0);
      const CostModel cost = CostOf(*options, spec);
      const auto rows = RunPipelines(options->plain, {spec}, cost);
      ASSERT_TRUE(rows.ok()) << rows.status();

      const auto plans = BuildPlans(spec);
      ASSERT_TRUE(plans.ok()) << plans.status();
      std::vector<SimulatedRank> ranks;
      for (const RankPlan& plan : *plans) ranks.push_back({&plan.program, &cost, {}});
      const auto intervals = Simulate(ranks);
      ASSERT_TRUE(intervals.ok()) << intervals.status();
      int64_t end = 0;
      for (const auto& of_rank : *intervals) end = std::max(end, SpanOf(of_rank).end);
      const double step = static_cast<double>(end) * 1e-9;
      const double tolerance = *contention == '\0' ? 1e-9 : 1e-5 * step;
      EXPECT_NEAR(rows->at(0).step, step, tolerance) << flags;
    }
  }
}

TEST(SimPipelineCommandTest, PartsAddUpToTheStep) {
  for (const nlohmann::json& row :
       Rows("--schedule domino_row --tp 2 --dp 2 --pp 2,3 --layers 6 --micro-batches 4")) {
    double sum = 0;
    for (const char* part : {"compute", "bubble", "exposed_pp", "exposed_tp", "exposed_dp"}) {
      const double seconds = row[absl::StrCat(part, "_seconds")];
      EXPECT_GE(seconds, 0) << part << " of " << row;
      sum += seconds;
    }
    EXPECT_NEAR(sum, row["step_seconds"], 1e-9);
    EXPECT_GE(row["step_seconds"], row["ideal_seconds"]);
  }
}

TEST(SimPipelineCommandTest, TheBlockingOrderIsItsOwnBaseline) {
  const nlohmann::json rows =
      Rows(absl::StrCat(kSmall, "--pp 2 --gbps 0.1 --pipeline 1f1b_blocking,eager_1f1b"));
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0]["order"], "1f1b_blocking");
  EXPECT_EQ(rows[0]["speed_up"], 1);
  EXPECT_GT(rows[1]["speed_up"], 1.05);
  EXPECT_GT(rows[1]["first_activation_bytes"], rows[0]["first_activation_bytes"]);
}

// On a free network the bubble of p stages is (p - 1) / (v m) of a stage's work.
TEST(SimPipelineCommandTest, ChunksShortenTheBubbleAndSendMore) {
  const nlohmann::json rows = Rows(
      "--layers 16 --vocab 128 --tp 1 --micro-batch 1 --micro-batches 8 --pp 4 --gbps 1000 "
      "--pipeline 1f1b,interleaved_1f1b --chunks 2,4");
  ASSERT_EQ(rows.size(), 3);
  const auto bubble = [&](size_t row) { return rows[row]["bubble_seconds"].get<double>(); };
  const auto sent = [&](size_t row) { return rows[row]["sent_bytes"].get<int64_t>(); };
  EXPECT_EQ(rows[0]["chunks_per_stage"], 1);
  EXPECT_EQ(rows[1]["chunks_per_stage"], 2);
  EXPECT_NEAR(bubble(0), 3.0 / 8 * rows[0]["compute_seconds"].get<double>(), 0.05 * bubble(0));
  EXPECT_NEAR(bubble(1), bubble(0) / 2, 0.05 * bubble(0));
  EXPECT_NEAR(bubble(2), bubble(0) / 4, 0.05 * bubble(0));
  EXPECT_EQ(sent(1), 2 * sent(0));
  EXPECT_EQ(sent(2), 4 * sent(0));
}

TEST(SimPipelineCommandTest, RowsOfChunksSaySo) {
  const SimRun run = Sim(absl::StrCat(kSmall, "--pp 2 --chunks 2"));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("     2 interleaved_1f1b x 2 "));
}

// Where ranks of a stage communicate as long as they compute, a woven pair hides it.
TEST(SimPipelineCommandTest, FoldedStagesHideWhatOtherOrdersExpose) {
  const nlohmann::json rows = Rows(
      "--layers 8 --vocab 128 --tp 2 --micro-batch 1 --micro-batches 8 --pp 2 --gbps 1 "
      "--schedule megatron_async --pipeline 1f1b,folded");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[1]["order"], "folded");
  EXPECT_EQ(rows[1]["chunks_per_stage"], 2);
  EXPECT_LT(rows[1]["exposed_tp_seconds"], 0.7 * rows[0]["exposed_tp_seconds"].get<double>());
  EXPECT_LT(rows[1]["step_seconds"], rows[0]["step_seconds"]);
}

constexpr char kFolded[] =
    "--layers 8 --vocab 128 --tp 2 --micro-batch 1 --micro-batches 8 --pp 2 --gbps 1 "
    "--sequence-parallel --schedule helix --pipeline folded";

TEST(SimPipelineCommandTest, SearchedPlansOfFoldedCellsAreComparedWithTheDefaultOnes) {
  const nlohmann::json given = Rows(kFolded)[0],
                       found = Rows(absl::StrCat(kFolded, " --plan found"))[0];
  EXPECT_EQ(given["cells"], found["cells"]);
  EXPECT_EQ(given["played_plan"], "default");
  EXPECT_EQ(found["played_plan"], "found");
  EXPECT_LT(found["step_seconds"], given["step_seconds"]);
  for (const char* name : {"f0|b1", "f1|b0"}) {
    const nlohmann::json cell = found["cells"][name];
    EXPECT_LT(cell["found_seconds"], cell["default_seconds"]) << name;
    EXPECT_GE(cell["found_seconds"], cell["lower_bound_seconds"]) << name;
    EXPECT_THAT(std::string(cell["found_plan"]),
                HasSubstr(absl::StrCat("weave ", name, " pace=1\n")));
  }
  const std::string text = Sim(absl::StrCat(kFolded, " --plan found")).out;
  EXPECT_THAT(text, HasSubstr("\nweave plans of folded, on the slowest stage\nstages cell "));
  EXPECT_THAT(
      text, MatchesRegex("(.|\n)*\n     2 f0\\|b1 [^\n]*  found\n     2 f1\\|b0 [^\n]*  found\n"));
  EXPECT_FALSE(Rows(absl::StrCat(kSmall, "--pp 2 --pipeline 1f1b"))[0].contains("cells"));
}

// What is printed, read again, gives the same step.
TEST(SimPipelineCommandTest, PlansOfFoldedCellsArePrintedAndReadFromAFile) {
  const SimRun none = Sim(absl::StrCat(kFolded, " --print-plan")),
               found = Sim(absl::StrCat(kFolded, " --plan found --print-plan"));
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out,
              MatchesRegex("weave f0\\|b1 pace=1\n(.|\n)*\nweave f1\\|b0 pace=1\n(.|\n)*"));
  EXPECT_THAT(none.err, MatchesRegex("cell f0\\|b1: [^\n]* of the lower bound of all plans\n"
                                     "cell f1\\|b0: [^\n]* of the lower bound of all plans\n"));
  EXPECT_NE(found.out, none.out);
  const std::string file = ::testing::TempDir() + "/folded.plan";
  for (const auto& [printed, flags] : {std::pair{none, ""}, {found, " --plan found"}}) {
    EXPECT_EQ(WriteFileAtomic(file, printed.out), absl::OkStatus());
    const nlohmann::json read = Rows(absl::StrCat(kFolded, " --plan ", file))[0],
                         played = Rows(absl::StrCat(kFolded, flags))[0];
    EXPECT_EQ(read["played_plan"], "given");
    EXPECT_EQ(read["step_seconds"], played["step_seconds"]);
    EXPECT_EQ(Sim(absl::StrCat(kFolded, " --print-plan --plan ", file)).out, printed.out);
  }
  const SimRun wrong = Sim(absl::StrReplaceAll(absl::StrCat(kFolded, " --plan ", file),
                                               {{"--layers 8", "--layers 12"}}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--plan: found layer 1 as the last one in line "));
}

// Four ranks of a node share the interface that each of them would have alone.
TEST(SimPipelineCommandTest, RanksOfANodeShareItsInterface) {
  const std::string flags = absl::StrCat(kSmall, "--dp 4 --pp 2 --pipeline gpipe");
  const auto alone = Rows(flags)[0], shared = Rows(absl::StrCat(flags, " --ranks-per-node 4"))[0];
  // Replicas of a stage are on one node, which they reach for free.
  EXPECT_GT(alone["exposed_dp_seconds"], 0);
  EXPECT_EQ(shared["exposed_dp_seconds"], 0);
  EXPECT_GT(shared["exposed_pp_seconds"], 2 * alone["exposed_pp_seconds"].get<double>());
  const auto within = Rows(absl::StrCat(flags, " --ranks-per-node 4 --node-gbps 1"))[0];
  EXPECT_DOUBLE_EQ(within["exposed_dp_seconds"], alone["exposed_dp_seconds"]);
}

TEST(SimPipelineCommandTest, WrongPipelinesAreOneLineWithFlagFoundAndExpected) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"--pp 0", {"--pp", "0", "1 to 64"}},
      {"--pp 2,x", {"--pp", "x", "1 to 64"}},
      {"--pp 1,2", {"--pp", "found 1 among several"}},
      {"--pp 8", {"--pp", "8", "6 layers"}},
      {"--pp 2 --pipeline zigzag", {"--pipeline", "'zigzag'", "eager_1f1b"}},
      {"--pp 2 --pipeline 1f1b,1f1b", {"--pipeline", "1f1b twice"}},
      {"--pipeline 1f1b", {"--pipeline", "1f1b", "--pp 1"}},
      {"--chunks 2", {"--chunks", "found 2", "--pp 1"}},
      {"--pp 2 --chunks 1", {"--chunks", "1", "2 to 64"}},
      {"--pp 2 --pipeline interleaved_1f1b", {"--pipeline", "interleaved_1f1b", "--chunks"}},
      {"--pp 2 --pipeline 1f1b --chunks 2", {"--chunks", "found 2", "--pipeline"}},
      {"--pp 2 --chunks 4 --micro-batches 2", {"--chunks", "found 4", "at most 3", "6 layers"}},
      {"--pp 2 --chunks 2 --micro-batches 3", {"--micro-batches", "multiple of 8", "pp_size 2"}},
      {"--pp 2 --pipeline folded --micro-batches 4",
       {"--layers", "found 6", "multiple of 4", "folded"}},
      {"--pp 3 --pipeline folded --micro-batches 3",
       {"--micro-batch x --micro-batches", "found 12", "at least 16", "folded"}},
      {"--pp 2 --schedule helix", {"--schedule", "found helix", "folded"}},
      {"--pp 2 --pipeline 1f1b,folded --schedule helix", {"--schedule", "found helix", "folded"}},
      {"--pp 2,4 --pipeline folded --schedule helix --print-plan", {"--print-plan", "2", "one"}},
      {"--pp 6 --tp 1 --dp 1024 --micro-batch 1", {"--pp x --dp x --tp", "6144", "4096"}},
      {"--ranks-per-node 0", {"--ranks-per-node", "0", "1 to 65536"}},
      {"--node-gbps 0", {"--node-gbps", "0", "from 1e-9 to 1e12"}},
      {"--node-latency-us -1", {"--node-latency-us", "-1", "from 0 to 1e9"}},
  };
  GoldenMessages golden("stretto-bench");
  for (const auto& [arguments, facts] : cases) {
    const SimRun run = Sim(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_THAT(run.err, MatchesRegex("error: [^\n]+\n"));
    golden.Add(run.err, facts);
    EXPECT_EQ(run.out, "") << arguments;
  }
}

}  // namespace
}  // namespace stretto
