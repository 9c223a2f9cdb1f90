// SPDX-License-Identifier: Apache-2.0

// How the memory of a new job is compared before it is created, and the message where it cannot be.
#include "coordinator/cli/commands/memory_look.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/units.h"
#include "tests/coordinator/cli/commands/dry_runs.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

// "PLACE: ASKED of OFFERED", in GiB.
std::vector<std::string> RoomsIn(const v1alpha1::DryRun& run,
                                 const std::vector<v1alpha1::Worker>& workers) {
  std::vector<std::string> rooms;
  for (const Room& room : RoomsOf(run, workers)) {
    rooms.push_back(absl::StrCat(room.place, ": ", room.asked / kGiB, " of ", room.offered / kGiB));
  }
  return rooms;
}

TEST(RoomsTest, AJobThatWouldWaitIsComparedWithWhatReadyWorkersHave) {
  std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 0),
                                           MakeWorker("b", "box", 2, 0),  // the same memory
                                           MakeWorker("c", "hall", 1, 0)};
  const v1alpha1::DryRun run = MakeWaiting(v1alpha1::DEVICE_CPU, 2, 3, 2 * kGiB);
  EXPECT_THAT(RoomsIn(run, workers),
              ElementsAre("nodes of all READY workers: 12 of 12",
                          "largest node, for 2 ranks that share a stage: 4 of 8"));
  EXPECT_EQ(Fits(run, workers), std::nullopt);  // that depends on what it gets
  workers[2].set_cordon("repair");              // it may be uncordoned meanwhile
  EXPECT_EQ(Fits(run, workers), std::nullopt);
  workers[2].set_state(v1alpha1::Worker::LOST);
  EXPECT_EQ(Fits(run, workers), false);
}

TEST(RoomsTest, TheRanksOfABlockNeedOneNodeUnlessTheyMaySplit) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 0),
                                                 MakeWorker("b", "hall", 2, 0)};
  v1alpha1::DryRun run = MakeWaiting(v1alpha1::DEVICE_CPU, 2, 1, 5 * kGiB);
  EXPECT_EQ(Fits(run, workers), false);
  run.mutable_job()->mutable_spec()->mutable_placement()->set_split_blocks(true);
  EXPECT_THAT(RoomsIn(run, workers), ElementsAre("nodes of all READY workers: 10 of 16",
                                                 "largest node, for a rank: 5 of 8"));
  EXPECT_EQ(Fits(run, workers), std::nullopt);
  // Of the stage that needs most.
  auto* parallelism = run.mutable_job()->mutable_spec()->mutable_parallelism();
  parallelism->add_stages()->set_tp_size(1);
  parallelism->add_stages()->set_tp_size(2);
  run.mutable_job()->mutable_spec()->clear_placement();
  run.mutable_plan()->mutable_ranks(0)->set_count(1);
  auto* second = run.mutable_plan()->add_ranks();
  second->set_rank(1);
  second->set_count(2);
  second->set_stage(1);
  second->set_bytes(3 * kGiB);
  EXPECT_THAT(RoomsIn(run, workers),
              ElementsAre("nodes of all READY workers: 11 of 16",
                          "largest node, for 2 ranks that share a stage: 6 of 8"));
}

TEST(RoomsTest, GpusThatAreTakenAreComparedByTheLargestToo) {
  const std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 2),
                                                 MakeWorker("b", "box", 2, 1)};
  v1alpha1::DryRun run = MakeWaiting(v1alpha1::DEVICE_CUDA, 2, 1, 80 * kGiB);
  EXPECT_THAT(RoomsIn(run, workers), ElementsAre("GPUs of all READY workers: 160 of 240",
                                                 "largest GPU of READY workers: 80 of 80"));
  EXPECT_EQ(Fits(run, workers), std::nullopt);
  run.mutable_plan()->mutable_ranks(0)->set_bytes(80 * kGiB + 1);
  EXPECT_EQ(Fits(run, workers), false);
  run = MakeWaiting(v1alpha1::DEVICE_CUDA, 2, 2, 61 * kGiB);
  EXPECT_EQ(Fits(run, workers), false);
  // The copies of asynchronous checkpoints are on the nodes.
  run = MakeWaiting(v1alpha1::DEVICE_CUDA, 2, 1, kGiB);
  run.mutable_plan()->mutable_ranks(0)->set_checkpoint_copy_bytes(5 * kGiB);
  EXPECT_EQ(Fits(run, workers), std::nullopt);
  run.mutable_job()->mutable_spec()->mutable_checkpoint()->set_asynchronous(true);
  EXPECT_EQ(RoomsIn(run, workers).back(), "nodes of all READY workers: 10 of 8");
  EXPECT_EQ(Fits(run, workers), false);
}

TEST(WhyNotComparedTest, SaysWhatIsNotKnown) {
  std::vector<v1alpha1::Worker> workers = {MakeWorker("a", "box", 2, 0)};
  EXPECT_EQ(WhyNotCompared(MakeRun(v1alpha1::DEVICE_CPU, {"a"}, 0, kGiB), workers), "");
  EXPECT_EQ(WhyNotCompared(MakeRun(v1alpha1::DEVICE_CPU, {"a", "b"}, 0, kGiB), workers),
            "it is not known how much there is: worker b");
  v1alpha1::DryRun run = MakeWaiting(v1alpha1::DEVICE_CPU, 2, 1, kGiB);
  EXPECT_EQ(WhyNotCompared(run, workers), "");
  EXPECT_EQ(WhyNotCompared(MakeWaiting(v1alpha1::DEVICE_CUDA, 1, 1, kGiB), workers),
            "it is not known how much there is: GPUs of all READY workers; largest GPU of READY "
            "workers");
  workers[0].set_state(v1alpha1::Worker::LOST);
  EXPECT_EQ(WhyNotCompared(run, workers), "no worker is READY");
  EXPECT_EQ(Fits(run, workers), std::nullopt);
  EXPECT_EQ(WhyNotCompared({}, workers), "the plan has no ranks");
}

// ---- the commands

std::string PlanOf(int64_t bytes) {
  return absl::StrCat("echo '{\"ranks\":[{\"count\":3,\"bytes\":", bytes, "}]}'");
}

class MemoryLookTest : public CommandsTest {
 protected:
  // All three ranks have a place on the node, which has 4 GiB.
  void Place() {
    jobs_.create = [this](Job* job) {
      for (int rank = 0; rank < 3 && jobs_.create_request.validate_only(); ++rank) {
        job->add_placement()->set_worker("workers/worker-1");
        job->mutable_placement(rank)->set_rank(rank);
      }
      return grpc::Status::OK;
    };
  }
  bool created() const { return !jobs_.create_request.validate_only(); }
};

TEST_F(MemoryLookTest, SubmitRefusesAJobThatDoesNotFitItsPlaces) {
  Place();
  WritePlanner(PlanOf(4 * kGiB / 3 + 1));
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  EXPECT_FALSE(created());
  ExpectMessage({"error: " + file_ + ": memory of node box: found 4.0 GiB ",
                 "expected at most 4.0 GiB", "--dry-run", "--no-look"});
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kError);
  EXPECT_EQ(Run({"job", "submit", file_, "--no-look"}), kOk) << err();
  EXPECT_TRUE(created());
  WritePlanner(PlanOf(4 * kGiB / 3));
  EXPECT_EQ(Run({"job", "submit", file_}), kOk) << err();
  EXPECT_TRUE(created());
  EXPECT_THAT(err(), Not(HasSubstr("memory")));
}

TEST_F(MemoryLookTest, AJobThatWouldWaitIsRefusedIfNoWorkerHasThatMuch) {
  WritePlanner(PlanOf(2 * kGiB));
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  EXPECT_FALSE(created());
  ExpectMessage({"error: " + file_ + ": memory of nodes of all READY workers: found 6.0 GiB ",
                 "expected at most 4.0 GiB", "--no-look"});
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kError);
  EXPECT_THAT(out(), HasSubstr("nodes of all READY workers: 6.0 GiB of 4.0 GiB, does NOT fit\n"));
  ExpectMessage({"job gpt ", "does not fit memory"});
}

TEST_F(MemoryLookTest, WhyMemoryWasNotComparedIsSaidByBoth) {
  const std::string planner = dir_ + "/stretto-planner";
  const auto expect = [&](const std::string& why) {
    EXPECT_EQ(Run({"job", "submit", file_, "--dry-run"}), kOk);
    EXPECT_THAT(err(), HasSubstr("memory was not compared: " + why));
    EXPECT_EQ(Run({"job", "submit", file_}), kOk);
    EXPECT_TRUE(created());
    ExpectMessage({"memory was not compared: " + why, "job gpt created"});
  };
  cluster_.state = v1alpha1::Worker::LOST;
  expect("no worker is READY");
  cluster_.state = v1alpha1::Worker::READY;
  cluster_.node_bytes = 0;
  expect("it is not known how much there is: nodes of all READY workers");
  Place();
  expect("it is not known how much there is: node box");
  cluster_.list = [] { return Refusal(grpc::INTERNAL, "a disk failed", "DISK"); };
  expect("a disk failed");
  WritePlanner("echo 'error: no such preset' >&2; exit 1");
  expect(planner + ": error: no such preset");
  std::filesystem::remove(planner);
  expect(planner + ": No such file or directory");
}

// The Python client takes them from there.
TEST_F(MemoryLookTest, ADryRunInJsonHasThePlacesThatLackMemoryAndWhatWasNotCompared) {
  Place();
  WritePlanner(PlanOf(4 * kGiB / 3 + 1));
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run", "-o", "json"}), kError);
  nlohmann::json run = nlohmann::json::parse(out());
  EXPECT_EQ(run["fits"], false);
  EXPECT_EQ(run["shortages"],
            nlohmann::json::parse(absl::StrCat(
                R"([{"place": "node box", "asked_bytes": )", 3 * (4 * kGiB / 3 + 1),
                R"(, "offered_bytes": )", 4 * kGiB,
                R"(, "description": "found 4.0 GiB for the job, expected at most 4.0 GiB"}])")));
  EXPECT_EQ(run["memory_not_compared"], "");
  WritePlanner("exit 1");
  EXPECT_EQ(Run({"job", "submit", file_, "--dry-run", "-o", "json"}), kOk);
  run = nlohmann::json::parse(out());
  EXPECT_FALSE(run.contains("fits"));
  EXPECT_TRUE(run["shortages"].empty());
  EXPECT_THAT(run["memory_not_compared"].get<std::string>(), HasSubstr("/stretto-planner: "));
}

// A clone takes the next name that is free, and is looked at under that one too.
TEST_F(MemoryLookTest, ACloneUnderALaterNameIsLookedAt) {
  WritePlanner(PlanOf(2 * kGiB));
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED, 3)};
  jobs_.create = [](Job* job) {
    return job->name() == "jobs/gpt-3"
               ? grpc::Status::OK
               : Refusal(grpc::ALREADY_EXISTS, job->name() + " exists", "JOB_ALREADY_EXISTS");
  };
  EXPECT_EQ(Run({"job", "clone", "gpt"}), kError);
  EXPECT_FALSE(created());
  ExpectMessage({"error: job gpt: memory of nodes of all READY workers: "});
}

TEST_F(MemoryLookTest, AnInterruptOfThePlannerCreatesNothing) {
  const std::string started = dir_ + "/started";
  ASSERT_EQ(mkfifo(started.c_str(), 0600), 0);
  WritePlanner("echo > " + started + "; exec sleep 60");
  std::thread user([&] {
    std::string line;
    std::ifstream fifo(started);  // opens when the planner does
    std::getline(fifo, line);
    interrupt_.Raise();
  });
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  const FileDescriptor release(open(started.c_str(), O_WRONLY | O_NONBLOCK));  // if none started
  user.join();
  EXPECT_FALSE(created());
  ExpectMessage({"error: interrupted"});
}

}  // namespace
}  // namespace stretto::cli
