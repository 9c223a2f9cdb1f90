// SPDX-License-Identifier: Apache-2.0

// What `job submit --dry-run` makes of a plan, and the limits of the program that makes it.
#include "coordinator/cli/commands/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/local/limited_child.h"
#include "proto/base/units.h"
#include "tests/coordinator/cli/commands/dry_runs.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- the pure part

TEST(DryRunTextTest, ShowsPlacementAndMemoryWithARowForRanksThatAreAlike) {
  const v1alpha1::DryRun run = MakeRun(v1alpha1::DEVICE_CPU, {"a", "a", "a"}, 0, 5 * kGiB);
  const std::string text = DryRunText(run, {MakeWorker("a", "box", 3, 0)});
  EXPECT_THAT(text, HasSubstr("RANK  WORKER  SLOT  DEVICE\n   0  a          0  cpu core\n"));
  EXPECT_THAT(text, HasSubstr("RANKS  ACTIVATION    TOTAL  PARAMETERS  OPERATIONS\n"
                              "0         5.0 GiB  5.0 GiB           0           7\n"
                              "1-2       5.0 GiB  5.0 GiB           0           6\n"));
  EXPECT_THAT(text, EndsWith("node box: 15.0 GiB of 12.0 GiB, does NOT fit\n"));
}

TEST(DryRunTextTest, ShowsTheMemoryOfEachStage) {
  v1alpha1::DryRun run = MakeRun(v1alpha1::DEVICE_CPU, {"a", "a", "a"}, 0, 5 * kGiB);
  v1alpha1::Plan::Rank* last = run.mutable_plan()->mutable_ranks(1);
  last->set_stage(1);
  auto* losses = last->add_arenas();
  losses->set_name("output");
  losses->set_bytes(kGiB);
  const std::string text = DryRunText(run, {});
  EXPECT_THAT(text,
              HasSubstr("RANKS  STAGE  ACTIVATION   OUTPUT    TOTAL  PARAMETERS  OPERATIONS\n"
                        "0          0     5.0 GiB        -  5.0 GiB           0           7\n"
                        "1-2        1     5.0 GiB  1.0 GiB  5.0 GiB           0           6\n"));
  EXPECT_THAT(text, Not(HasSubstr("the least it can be")));
  run.mutable_plan()->set_smallest(true);
  run.mutable_job()->mutable_spec()->mutable_schedule()->mutable_pipeline()->set_auto_warm_up(true);
  EXPECT_THAT(DryRunText(run, {}),
              HasSubstr("auto_warm_up chooses warm-ups when the ranks prepare: "
                        "this is the least it can be.\n"));
}

TEST(DryRunTextTest, ShowsWhatCopiesForCheckpointsTake) {
  v1alpha1::DryRun run = MakeRun(v1alpha1::DEVICE_CPU, {"a"}, 0, 5 * kGiB);
  EXPECT_THAT(DryRunText(run, {}), Not(HasSubstr("Copy")));
  run.mutable_plan()->mutable_ranks(0)->set_checkpoint_copy_bytes(2 * kGiB);
  EXPECT_THAT(DryRunText(run, {}),
              HasSubstr("Copy for asynchronous checkpoints: 2.0 GiB of each rank in the memory of "
                        "its node, if it is at most half of what is left\n"));
  run.mutable_job()->mutable_spec()->mutable_checkpoint()->set_asynchronous(true);
  EXPECT_THAT(DryRunText(run, {}), HasSubstr("in the memory of its node\n"));
}

TEST(DryRunTextTest, AJobThatWouldWaitSaysWhy) {
  v1alpha1::DryRun run;
  auto* condition = run.mutable_job()->add_conditions();
  condition->set_type("Scheduled");
  condition->set_reason("NotEnoughSlots");
  condition->set_message("needs 2 slots; 0 free of 2 on 1 worker");
  EXPECT_THAT(DryRunText(run, {}),
              EndsWith("\nPlacement:\nIt would wait: NotEnoughSlots: needs 2 slots; 0 free of 2 on "
                       "1 worker\n"));
}

TEST(DryRunTextTest, AJobThatWouldWaitIsComparedWithAllWorkers) {
  const v1alpha1::DryRun run = MakeWaiting(v1alpha1::DEVICE_CPU, 2, 3, 3 * kGiB);
  EXPECT_THAT(DryRunText(run, {MakeWorker("a", "box", 2, 0), MakeWorker("b", "hall", 1, 0)}),
              EndsWith("\nnodes of all READY workers: 18.0 GiB of 12.0 GiB, does NOT fit\n"
                       "largest node, for 2 ranks that share a stage: 6.0 GiB of 8.0 GiB\n"));
}

// Also where no worker has looked.
TEST(DryRunTextTest, TellsTheTokensOfAStep) {
  v1alpha1::DryRun run;
  EXPECT_THAT(DryRunText(run, {}), Not(HasSubstr("tokens")));
  run.mutable_job()->mutable_spec()->set_global_batch_size(8);
  run.mutable_job()->mutable_spec()->mutable_model()->set_sequence_length(128);
  EXPECT_THAT(DryRunText(run, {}), HasSubstr("\nSteps: 1.0k tokens each\n"));
  run.mutable_job()->mutable_spec()->set_steps(20);
  EXPECT_THAT(DryRunText(run, {}), HasSubstr("\nSteps: 20 of 1.0k tokens each\n\nPlacement:\n"));
}

TEST(DryRunTextTest, ShowsWhatAWorkerHasFound) {
  v1alpha1::DryRun run;
  auto* condition = run.mutable_job()->add_conditions();
  condition->set_type("Inspected");
  condition->set_status(v1alpha1::Condition::TRUE);
  condition->set_message("worker a: data: 1k tokens; epoch: 3 steps");
  EXPECT_THAT(DryRunText(run, {}),
              EndsWith("\nFound by worker a: data: 1k tokens; epoch: 3 steps\n"));
  condition->set_status(v1alpha1::Condition::UNKNOWN);
  condition->set_message("no worker is connected");
  EXPECT_THAT(
      DryRunText(run, {}),
      EndsWith("\nData, weights and checkpoints were not looked at: no worker is connected\n"));
}

// ---- the program

class RunLimitedTest : public ::testing::Test {
 protected:
  const std::string dir_ =
      absl::StrCat(::testing::TempDir(), "/limited_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  void SetUp() override { std::filesystem::create_directories(dir_); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  absl::StatusOr<std::string> Run(const std::string& body, const ChildLimits& limits = {},
                                  const std::string& input = "") {
    return RunLimited({WriteScript(dir_ + "/program", body)}, input, limits, interrupt_);
  }
  Interrupt interrupt_;
};

TEST_F(RunLimitedTest, AnswersWhatTheProgramWrites) {
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  const auto answer = Run("exec cat", {}, large);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, large);
}

TEST_F(RunLimitedTest, AMissingProgramIsNotFound) {
  const absl::Status status = RunLimited({dir_ + "/none"}, "", {}, interrupt_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none"));
}

TEST_F(RunLimitedTest, AFailureCarriesWhatItSaid) {
  const absl::Status status = Run("echo 'error: no such preset' >&2; exit 1").status();
  EXPECT_EQ(status, absl::InternalError(absl::StrCat(
                        dir_, "/program: error: no such preset (exited with status 1)")));
}

TEST_F(RunLimitedTest, CpuTimeIsLimited) {
  const absl::Status status =
      Run("while :; do :; done", {.cpu_seconds = 1, .deadline = absl::Seconds(60)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was killed by signal"));
}

TEST_F(RunLimitedTest, MemoryIsLimited) {
  const auto answer = Run("ulimit -v", {.memory_bytes = int64_t{1} << 30});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "1048576\n");
}

TEST_F(RunLimitedTest, TheDeadlineEndsIt) {
  const absl::Status status = Run("exec sleep 60", {.deadline = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RunLimitedTest, AnInterruptEndsIt) {
  interrupt_.Raise();
  EXPECT_EQ(Run("exec sleep 60").status().code(), absl::StatusCode::kCancelled);
}

// ---- the command

TEST_F(CommandsTest, DryRunStoresNothingAndShowsThePlan) {
  WritePlanner("cat > " + dir_ + "/spec.json; " + kSmallPlan);
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk) << err();
  EXPECT_TRUE(jobs_.create_request.validate_only());
  EXPECT_THAT(out(), HasSubstr("  tp_size: 3\n"));
  EXPECT_THAT(
      out(),
      HasSubstr("RANKS  ACTIVATION    TOTAL  PARAMETERS  OPERATIONS\n0         1.0 MiB  1.0 MiB"));
  ExpectMessage({"job gpt "});
  std::ifstream spec(dir_ + "/spec.json");
  const std::string json(std::istreambuf_iterator<char>(spec), {});
  EXPECT_THAT(json, HasSubstr("\"tp_size\":3"));
}

TEST_F(CommandsTest, DryRunInJsonIsTheJobWithItsPlan) {
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run", "-o", "json"}), kOk) << err();
  EXPECT_THAT(out(), HasSubstr("\"name\": \"jobs/gpt\""));
  EXPECT_THAT(out(), HasSubstr("\"parameters\": 5"));
}

TEST_F(CommandsTest, DryRunWithoutThePlannerSaysSoAndShowsTheRest) {
  std::filesystem::remove(dir_ + "/stretto-planner");
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk);
  EXPECT_THAT(out(), HasSubstr("  tp_size: 3\n"));
  EXPECT_THAT(out(), Not(HasSubstr("Memory")));
  ExpectMessage({"memory", dir_ + "/stretto-planner: "});
}

TEST_F(CommandsTest, DryRunRefusesAnAnswerThatIsNoPlan) {
  WritePlanner("echo hello");
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk);
  ExpectMessage({"memory", dir_ + "/stretto-planner: "});
}

}  // namespace
}  // namespace stretto::cli
