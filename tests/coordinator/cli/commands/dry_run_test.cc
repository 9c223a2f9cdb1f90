// SPDX-License-Identifier: Apache-2.0

// What `job submit --dry-run` makes of a plan, and the limits of the program that makes it.
#include "coordinator/cli/commands/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/local/limited_child.h"
#include "proto/base/units.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Script(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// ---- the pure part

v1alpha1::Worker MakeWorker(const std::string& id, const std::string& host, int cores, int gpus) {
  v1alpha1::Worker worker;
  worker.set_name("workers/" + id);
  worker.set_host(host);
  for (int slot = 0; slot < cores + gpus; ++slot) {
    auto* device = worker.add_devices();
    device->set_slot(slot);
    device->set_kind(slot < cores ? v1alpha1::DEVICE_CPU : v1alpha1::DEVICE_CUDA);
    device->set_description(slot < cores ? "cpu core" : "GPU");
    device->set_memory_bytes((slot < cores ? 4 : 80) * kGiB);
  }
  return worker;
}

v1alpha1::DryRun MakeRun(v1alpha1::Device device, const std::vector<std::string>& workers,
                         int first_slot, int64_t bytes) {
  v1alpha1::DryRun run;
  run.mutable_job()->mutable_spec()->set_device(device);
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    auto* placement = run.mutable_job()->add_placement();
    placement->set_rank(static_cast<int>(rank));
    placement->set_worker("workers/" + workers[rank]);
    placement->set_slot(first_slot + static_cast<int>(rank));
    if (rank > 1) continue;  // the others are as the second
    auto* planned = run.mutable_plan()->add_ranks();
    planned->set_rank(static_cast<int>(rank));
    planned->set_count(rank == 0 ? 1 : static_cast<int>(workers.size()) - 1);
    planned->set_bytes(bytes);
    planned->set_operations(rank == 0 ? 7 : 6);
    auto* arena = planned->add_arenas();
    arena->set_name("activation");
    arena->set_bytes(bytes);
  }
  return run;
}

TEST(FitsTest, RanksShareTheMemoryOfTheirNode) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 0)};  // 8 GiB
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "a"}, 0, 4 * kGiB), workers), true);
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "a"}, 0, 4 * kGiB + 1), workers), false);
}

TEST(FitsTest, WorkersOfOneHostShareItsMemory) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 0),
                                                 MakeWorker("b", "box", 2, 0)};
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "b"}, 0, 4 * kGiB), workers), true);
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "b"}, 0, 5 * kGiB), workers), false);
}

TEST(FitsTest, AGpuIsARanksOwn) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 2)};
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CUDA, {"a", "a"}, 2, 80 * kGiB), workers), true);
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CUDA, {"a", "a"}, 2, 80 * kGiB + 1), workers), false);
}

// Only those that are asked for must fit. They are in the memory of the node, also those of GPUs.
TEST(FitsTest, CopiesForCheckpointsNeedRoomOnTheNode) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 2)};  // 8 GiB
  for (v1alpha1::Device device : {v1alpha1::DEVICE_CPU, v1alpha1::DEVICE_CUDA}) {
    const bool cuda = device == v1alpha1::DEVICE_CUDA;
    v1alpha1::DryRun run = MakeRun(device, {"a", "a"}, cuda ? 2 : 0, cuda ? kGiB : kGiB / 2);
    const int64_t room = cuda ? 8 * kGiB : 7 * kGiB;
    for (auto& planned : *run.mutable_plan()->mutable_ranks())
      planned.set_checkpoint_copy_bytes(room / 2);
    EXPECT_EQ(Fits(run, workers), true);
    run.mutable_job()->mutable_spec()->mutable_checkpoint()->set_asynchronous(true);
    EXPECT_EQ(Fits(run, workers), true);
    run.mutable_plan()->mutable_ranks(1)->set_checkpoint_copy_bytes(room / 2 + 1);
    EXPECT_EQ(Fits(run, workers), false);
  }
}

TEST(FitsTest, WhatIsNotKnownIsNotGuessed) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 1, 0)};
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "b"}, 0, 1), workers), std::nullopt);
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {"a", "b"}, 0, 5 * kGiB), workers), false);
  EXPECT_EQ(Fits(MakeRun(v1alpha1::DEVICE_CPU, {}, 0, 1), workers), std::nullopt);
}

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

TEST(DryRunTextTest, ShowsWhatAWorkerHasFound) {
  v1alpha1::DryRun run;
  auto* condition = run.mutable_job()->add_conditions();
  condition->set_type("Inspected");
  condition->set_status(v1alpha1::Condition::TRUE);
  condition->set_message("worker a: data: 1k tokens; steps: 3");
  EXPECT_THAT(DryRunText(run, {}), EndsWith("\nFound by worker a: data: 1k tokens; steps: 3\n"));
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
    return RunLimited({Script(dir_ + "/program", body)}, input, limits, interrupt_);
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
  Script(dir_ + "/stretto-planner",
         "cat > " + dir_ +
             "/spec.json; echo '{\"ranks\":[{\"arenas\":[{\"name\":\"activation\","
             "\"bytes\":1048576}],\"bytes\":1048576}],\"parameters\":5}'");
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
  Script(dir_ + "/stretto-planner", "echo '{\"parameters\":5}'");
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run", "-o", "json"}), kOk) << err();
  EXPECT_THAT(out(), HasSubstr("\"name\": \"jobs/gpt\""));
  EXPECT_THAT(out(), HasSubstr("\"parameters\": 5"));
}

TEST_F(CommandsTest, DryRunWithoutThePlannerSaysSoAndShowsTheRest) {
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk);
  EXPECT_THAT(out(), HasSubstr("  tp_size: 3\n"));
  EXPECT_THAT(out(), Not(HasSubstr("Memory")));
  ExpectMessage({"memory", dir_ + "/stretto-planner: "});
}

TEST_F(CommandsTest, DryRunRefusesAnAnswerThatIsNoPlan) {
  Script(dir_ + "/stretto-planner", "echo hello");
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk);
  ExpectMessage({"memory", dir_ + "/stretto-planner: "});
}

}  // namespace
}  // namespace stretto::cli
