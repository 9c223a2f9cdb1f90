// SPDX-License-Identifier: Apache-2.0

// The benchmark as it is run: two processes on loopback, a tiny model.

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/worker/bench/testing/made_up_costs.h"
#include "worker/bench/options/overlap_options.h"
#include "worker/bench/overlap/phases.h"
#include "worker/bench/overlap/plans.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr char kBench[] = STRETTO_BINARY_DIR "/stretto-bench overlap";
constexpr char kTiny[] =
    " --layers 2 --hidden 32 --heads 4 --sequence 16 --batch 4 --vocab 100 --repeats 2";

class OverlapTest : public ::testing::Test {
 protected:
  OverlapTest() : folder_(::testing::TempDir() + "/overlap-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~OverlapTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const char* name) const { return absl::StrCat(folder_, "/", name); }

  // Exit code of the shell.
  static int Shell(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Exit code of rank 0; rank 1 must end well.
  int RunTwoRanks(const std::string& arguments) const {
    const std::string each =
        absl::StrCat(kBench, kTiny, " --rendezvous ", folder_, " ", arguments, " --rank ");
    return Shell(absl::StrCat(each, "1 >", PathOf("rank1"), " 2>&1 & ", each, "0 --json ",
                              PathOf("json"), " >", PathOf("rank0"),
                              " 2>&1; code=$?; wait $! || exit 9; ", "exit $code"));
  }

  Json Result() const {
    const absl::StatusOr<std::string> text = ReadFile(PathOf("json"));
    EXPECT_TRUE(text.ok()) << text.status() << ReadFile(PathOf("rank0")).value_or("");
    return text.ok() ? Json::parse(*text, nullptr, false) : Json();
  }

  std::string folder_;
};

TEST_F(OverlapTest, EverySchedulePassesParityAndHasAllFigures) {
  ASSERT_EQ(RunTwoRanks("--schedules megatron_sync,domino_row --slices 1,2 --splits 1"), 0)
      << ReadFile(PathOf("rank0")).value_or("") << ReadFile(PathOf("rank1")).value_or("");

  const Json result = Result();
  EXPECT_EQ(result["errors"], Json::array());
  EXPECT_GT(result["wire_bytes"], 0);
  EXPECT_EQ(result["searched"].size(), 3u);  // megatron_sync takes no slices
  for (const Json& searched : result["searched"]) EXPECT_EQ(searched["parity"], true) << searched;
  ASSERT_EQ(result["schedules"].size(), 2u);
  for (const Json& schedule : result["schedules"]) {
    for (const char* key : {"schedule",
                            "slices",
                            "splits",
                            "sequence_parallel",
                            "defer_wgrads",
                            "gbps",
                            "dtype",
                            "wire",
                            "parity",
                            "t_comp",
                            "t_comm",
                            "t_serial",
                            "t_overlap",
                            "t_comp_sliced",
                            "t_ideal_step",
                            "t_ideal_phase",
                            "t_ideal",
                            "hidden_forward",
                            "hidden_backward",
                            "hidden_ceiling_forward",
                            "hidden_ceiling_backward",
                            "t_simulated",
                            "t_comp_simulated",
                            "t_simulated_interleaved",
                            "t_comp_simulated_interleaved",
                            "comm_cpu_seconds",
                            "slowdown",
                            "tokens_per_second",
                            "peer"}) {
      EXPECT_TRUE(schedule.contains(key)) << schedule["schedule"] << ": " << key;
    }
    for (const char* time : {"t_comp", "t_comm", "t_serial", "t_overlap", "t_comp_sliced",
                             "t_ideal_step", "comm_cpu_seconds"}) {
      EXPECT_GT(schedule[time], 0) << schedule["schedule"] << ": " << time;
    }
    // Without costs of a calibration.
    EXPECT_TRUE(schedule["t_simulated"].is_null() && schedule["t_comp_simulated"].is_null());
    EXPECT_TRUE(schedule["t_simulated_interleaved"].is_null());
    EXPECT_THAT(schedule["parity"].get<std::string>(), HasSubstr("bitwise equal"));
    EXPECT_NEAR(schedule["loss_first"].get<double>(), std::log(100), 0.1);
  }
  // What is synchronous hides nothing by its intervals; the smaller share may be noise below that.
  EXPECT_LE(result["schedules"][0]["hidden_forward"], 0);
}

TEST_F(OverlapTest, EveryChoiceIsMeasuredWhereAskedFor) {
  ASSERT_EQ(RunTwoRanks("--schedules domino_row --slices 1,2 --splits 1 --every-choice"), 0);

  const Json result = Result();
  ASSERT_EQ(result["schedules"].size(), 2u);
  EXPECT_EQ(result["schedules"][0]["slices"], 1);
  EXPECT_EQ(result["schedules"][1]["slices"], 2);
}

TEST_F(OverlapTest, AStepMayHaveSeveralMicroBatches) {
  ASSERT_EQ(RunTwoRanks("--micro-batches 3 --slices 1 --splits 1"), 0)
      << ReadFile(PathOf("rank0")).value_or("") << ReadFile(PathOf("rank1")).value_or("");

  const Json result = Result();
  EXPECT_EQ(result["work"]["micro_batches"], 3);
  // Rows [4 x 16, 32] of f32: 2(n-1)/n of the bytes.
  EXPECT_EQ(result["least_collective_bytes"], 4 * 16 * 32 * 4);
  EXPECT_THAT(result["refused"].dump(), HasSubstr("domino_paper: no choice fits"));
  ASSERT_GE(result["schedules"].size(), 2u);
  for (const Json& schedule : result["schedules"]) {
    EXPECT_THAT(schedule["parity"].get<std::string>(), HasSubstr("bitwise equal"));
    const double phase = schedule["t_ideal_phase"], step = schedule["t_ideal_step"];
    EXPECT_NEAR(schedule["t_ideal_pairs"], (phase + 2 * step) / 3, 1e-9);
  }
}

// Every schedule has the same sequences in a step, divided as it likes best.
TEST_F(OverlapTest, TheSequencesOfAStepAreDividedInSeveralWays) {
  ASSERT_EQ(RunTwoRanks("--schedules domino_row,helix --slices 1,2 --splits 1 --micro-batches 3 "
                        "--divide 1,3,6 --every-choice"),
            0)
      << ReadFile(PathOf("rank0")).value_or("");

  std::set<std::string> measured;
  const Json result = Result();
  for (const Json& row : result["schedules"]) {
    measured.insert(absl::StrCat(row["schedule"].get<std::string>(), " ",
                                 row["micro_batches"].get<int>(), " x ", row["batch"].get<int>(),
                                 " / ", row["slices"].get<int>()));
    // The synchronous step has three micro-batches, so only a step of three has the same pairs.
    EXPECT_EQ(row["hidden_ceiling_paired"].is_null(), row["micro_batches"] != 3) << row;
    EXPECT_EQ(row["t_comp"], result["schedules"][0]["t_comp"]);
    EXPECT_GT(row["activations"], 0);
    EXPECT_EQ(row["activations_serial"], result["schedules"][0]["activations_serial"]);
  }
  EXPECT_EQ(measured,
            (std::set<std::string>{
                "domino_row 1 x 12 / 1", "domino_row 1 x 12 / 2", "domino_row 3 x 4 / 1",
                "domino_row 3 x 4 / 2", "domino_row 6 x 2 / 1", "domino_row 6 x 2 / 2",
                "helix 3 x 4 / 1", "helix 3 x 4 / 2", "helix 6 x 2 / 1", "helix 6 x 2 / 2"}));
}

TEST_F(OverlapTest, StepsArePredictedFromCostsThatWereGiven) {
  const OverlapOptions options =
      *ParseOverlapOptions({"--rendezvous", "/tmp", "--layers", "2", "--hidden", "32", "--heads",
                            "4", "--sequence", "16", "--batch", "4", "--vocab", "100"});
  EngineSpec sliced = options.Unsliced();
  sliced.schedule.name = "domino_row";
  sliced.schedule.slices = {2, 2};
  const CostProfile costs = MadeUpCosts({options.Unsliced(), sliced});
  ASSERT_EQ(WriteFileAtomic(PathOf("costs"), Print(costs)), absl::OkStatus());
  const std::string arguments = absl::StrCat(
      "--schedules megatron_sync,domino_row --slices 1,2 --splits 1 --costs ", PathOf("costs"));
  ASSERT_EQ(RunTwoRanks(arguments), 0) << ReadFile(PathOf("rank0")).value_or("");

  const Json result = Result();
  ASSERT_EQ(result["schedules"].size(), 2u);
  const Program program = BuildPlan(options.Unsliced(), 0)->program;
  const auto intervals = Simulate(program, ModelOf(costs));
  EXPECT_EQ(result["schedules"][0]["t_simulated"], TimesOf(program, *intervals, 0).step.seconds);
  EXPECT_GT(result["schedules"][1]["t_simulated"], 0);
  double computation = 0;
  for (const Op& op : program.ops) {
    const bool counts = !IsCollective(op.kind) && op.tag.phase != Phase::kOptimizer;
    if (counts) computation += ModelOf(costs).Alone(program, op);
  }
  EXPECT_NEAR(result["schedules"][0]["t_comp_simulated"], computation, 1e-6);
  // The made-up millisecond is far more than what these computations take.
  for (const Json& schedule : result["schedules"]) {
    EXPECT_GT(schedule["t_comp_simulated_interleaved"], 0);
    EXPECT_LT(schedule["t_comp_simulated_interleaved"], schedule["t_comp_simulated"]);
    EXPECT_LT(schedule["t_simulated_interleaved"], schedule["t_simulated"]);
  }
}

TEST_F(OverlapTest, PlansOfAWeaveAreMeasuredBesideEachOther) {
  const OverlapOptions options = *ParseOverlapOptions(
      {"--rendezvous", "/tmp", "--layers", "2", "--hidden", "32", "--heads", "4", "--sequence",
       "16", "--batch", "4", "--vocab", "100", "--micro-batches", "3"});
  EngineSpec woven = options.Unsliced();
  woven.schedule.name = "helix";
  const CostProfile costs = MadeUpCosts({options.Unsliced(), woven});
  ASSERT_EQ(WriteFileAtomic(PathOf("costs"), Print(costs)), absl::OkStatus());
  ASSERT_EQ(RunTwoRanks(absl::StrCat("--schedules helix --slices 1 --splits 1 --micro-batches 3 "
                                     "--plans default,found,blocks --every-choice --costs ",
                                     PathOf("costs"))),
            0)
      << ReadFile(PathOf("rank0")).value_or("");

  // Plans that make the same program are measured once.
  std::vector<std::string> expected;
  std::set<std::string> programs;
  for (const char* plan : {"default", "found", "blocks"}) {
    Choice choice = {.spec = woven, .plan = plan};
    ASSERT_EQ(SetPlan(costs, &choice), absl::OkStatus());
    if (programs.insert(Print(BuildPlan(choice.spec, 0)->program)).second) expected.push_back(plan);
  }
  ASSERT_GT(expected.size(), 1u);
  std::vector<std::string> measured;
  const Json result = Result();
  for (const Json& row : result["schedules"]) {
    measured.push_back(row["plan"]);
    EXPECT_GT(row["plan_over_bound"], 0.99);
    EXPECT_THAT(row["parity"].get<std::string>(), HasSubstr("bitwise equal"));
  }
  EXPECT_EQ(measured, expected);
}

TEST_F(OverlapTest, PlansThatNeedCostsAreLeftOutWithoutThem) {
  ASSERT_EQ(RunTwoRanks("--schedules helix --slices 1 --splits 1 --micro-batches 3 "
                        "--plans default,found,blocks --every-choice"),
            0)
      << ReadFile(PathOf("rank0")).value_or("");
  EXPECT_THAT(ReadFile(PathOf("rank0")).value_or(""),
              HasSubstr("helix, 3 x 4 sequences, slices 1, splits 1, found plan: left out: "
                        "--plans: found 'found' "
                        "without --costs, expected default"));
  const Json result = Result();
  ASSERT_EQ(result["schedules"].size(), 1u);
  EXPECT_EQ(result["schedules"][0]["plan"], "default");
}

TEST_F(OverlapTest, AScheduleWithoutAPlanIsAnError) {
  // Helix has no splits, which is not what is amiss.
  EXPECT_EQ(
      RunTwoRanks("--schedules helix --slices 1 --splits 1,2 --micro-batches 3 --plans found"), 1);
  const Json result = Result();
  ASSERT_EQ(result["errors"].size(), 1u);
  EXPECT_THAT(result["errors"][0].get<std::string>(),
              HasSubstr("helix: no choice fits: --plans: found 'found' without --costs"));
}

TEST_F(OverlapTest, ScheduleThatFitsNoChoiceIsAnError) {
  EXPECT_EQ(RunTwoRanks("--schedules megatron_sync --slices 2"), 1);

  const Json result = Result();
  ASSERT_EQ(result["errors"].size(), 1u);
  EXPECT_THAT(result["errors"][0].get<std::string>(), HasSubstr("megatron_sync: no choice fits"));
  EXPECT_EQ(result["schedules"], Json::array());
}

TEST_F(OverlapTest, OneRankAloneReportsTheShareOfItsProducts) {
  ASSERT_EQ(Shell(absl::StrCat(kBench, kTiny, " --tp1 --json ", PathOf("json"), " >/dev/null")), 0);

  const Json result = Result();
  EXPECT_EQ(result["ranks"], 1);
  EXPECT_GT(result["t_step"], 0);
  EXPECT_GT(result["gemm_share"], 0);
  EXPECT_LT(result["gemm_share"], 1.5);
  EXPECT_GT(result["tokens_per_second"], 0);
}

TEST_F(OverlapTest, WrongArgumentsAreExitCodeTwo) {
  EXPECT_EQ(Shell(absl::StrCat(kBench, " --slices 0 2>/dev/null")), 2);
  EXPECT_EQ(Shell(absl::StrCat(kBench, " --help >/dev/null")), 0);
}

}  // namespace
}  // namespace stretto::bench
