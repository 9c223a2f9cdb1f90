// SPDX-License-Identifier: Apache-2.0

// Checkpoints that are written while training continues. Files are slow by waiting for steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"
#include "worker/checkpoint/fence.h"
#include "worker/trainer/checkpointing.h"
#include "worker/trainer/process/flight_watch.h"

namespace stretto::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A number that only grows, which threads wait for.
class Progress {
 public:
  void Reach(int64_t step) {
    {
      const MutexLock lock(mu_);
      reached_ = std::max(reached_, step);
    }
    changed_.NotifyAll();
  }
  void Reset() {
    const MutexLock lock(mu_);
    reached_ = 0;
  }
  // A test that would wait for ever fails.
  void Await(int64_t step) {
    const MutexLock lock(mu_);
    EXPECT_TRUE(changed_.WaitFor(mu_, std::chrono::minutes(1),
                                 [&]() REQUIRES(mu_) { return reached_ >= step; }))
        << "step " << step << " did not begin while a checkpoint was written";
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int64_t reached_ GUARDED_BY(mu_) = 0;
};

class AsynchronousCheckpointTest : public TrainingTest {
 protected:
  AsynchronousCheckpointTest() {
    asynchronous_ = true;
    config_.checkpoint_interval = 2;
  }

  // Trains on one rank, and notes in `begun_` the steps that begin.
  TrainResult Run() {
    begun_.Reset();
    int64_t steps = 0;
    const auto engine = MakeEngine([&, this](OpId op, int64_t) {
      if (op != 0) return;
      ++steps;
      if (on_step_) on_step_(steps);
      begun_.Reach(steps);
    });
    EXPECT_TRUE(engine->Initialise(1).ok());
    return TrainingTest::Run(*engine, {});
  }

  // Calls `before` with the step of every file, before it is written.
  void BeforeFiles(std::function<absl::Status(int64_t)> before) {
    files_.write = [before = std::move(before)](
                       const std::string& folder, int64_t step, const Attempt& attempt, Rank rank,
                       const std::vector<ShardTensor>& tensors) -> absl::StatusOr<ShardInfo> {
      if (absl::Status status = before(step); !status.ok()) return status;
      return WriteShard(folder, step, attempt, rank, tensors);
    };
  }
  // The files of step 2 are written once step 4 has begun.
  void SlowFiles() {
    BeforeFiles([this](int64_t step) {
      if (step == 2) begun_.Await(4);
      return absl::OkStatus();
    });
  }

  // "step 3", "saved 2", "failed 2: WHY", in the order in which they were reported.
  std::vector<std::string> Reported(const std::string& run_folder) {
    std::vector<std::string> all;
    const auto reports = ReadAfter(run_folder + "/reports.log", 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    for (const v1alpha1::RankReport& report : *reports) {
      if (report.has_step()) all.push_back(absl::StrCat("step ", report.step().step()));
      if (!report.has_checkpoint()) continue;
      const v1alpha1::CheckpointReport& checkpoint = report.checkpoint();
      all.push_back(checkpoint.ok()
                        ? absl::StrCat("saved ", checkpoint.step())
                        : absl::StrCat("failed ", checkpoint.step(), ": ", checkpoint.message()));
    }
    return all;
  }
  std::vector<std::string> Reported() { return Reported(folder_.path()); }

  std::map<std::string, std::string> FilesOf(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ostringstream content;
      content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      files[std::filesystem::relative(entry.path(), folder)] = content.str();
    }
    return files;
  }

  Progress begun_;
  std::function<void(int64_t)> on_step_;  // when a step begins
};

// While the ranks wait for files, they are at work for as long as these may take: a disk that never
// answers is found in minutes where there are few bytes.
TEST_F(AsynchronousCheckpointTest, FilesThatAreWaitedForAreAnnouncedByTheirBytes) {
  asynchronous_ = false;
  std::vector<absl::Duration> announced;
  BeforeFiles([&](int64_t) {
    absl::StatusOr<FlightState> flight;
    do {  // the loop announces while this thread begins
      flight = ReadFlightRecord(folder_ / "flight.bin");
      EXPECT_TRUE(flight.ok()) << flight.status();
    } while (flight.ok() && flight->announced_until == absl::ZeroDuration());
    announced.push_back(flight->announced_until - Clock::Real().Monotonic());
    return flight.status();
  });
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  ASSERT_EQ(announced.size(), 3u);
  for (absl::Duration left : announced) {
    EXPECT_GT(left, absl::Minutes(1));
    EXPECT_LE(left, FilesTake(Writers(config_.engine).bytes()));
  }
  EXPECT_LT(FilesTake(Writers(config_.engine).bytes()), kReadingData + absl::Seconds(1));
  EXPECT_EQ(FilesTake(100'000'000'000), kReadingData + absl::Seconds(5000));
}

TEST_F(AsynchronousCheckpointTest, TrainingContinuesWhileAFileIsWritten) {
  SlowFiles();
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(Saved(), ElementsAre(2, 4, 6));
  const std::vector<std::string> reported = Reported();
  ASSERT_EQ(reported.size(), 9u);
  // The next that is due, after step 4, waits for it.
  EXPECT_THAT(std::vector(reported.begin(), reported.begin() + 5),
              ElementsAre("step 1", "step 2", "step 3", "saved 2", "step 4"));
  EXPECT_EQ(reported[7], "saved 6");
  EXPECT_EQ(reported[8], "step 6");
}

TEST_F(AsynchronousCheckpointTest, TheLedgerHasWhatTheStepWaitedForAlone) {
  SlowFiles();
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  std::map<int64_t, double> waits;
  for (const v1alpha1::StepReport& step : StepReports()) {
    for (const auto& entry : step.ledger().entries())
      if (entry.part() == v1alpha1::Ledger::CHECKPOINT_WAIT) waits[step.step()] += entry.seconds();
  }
  EXPECT_GT(waits[2], 0);         // for the copy
  EXPECT_EQ(waits.count(3), 0u);  // the file is being written
  EXPECT_GT(waits[4], 0);         // for the rest of the file
}

TEST_F(AsynchronousCheckpointTest, OnlyOneIsUnderWay) {
  config_.checkpoint_interval = 1;
  std::atomic<int> now = 0, most = 0;
  const auto enter = [&] { most = std::max(most.load(), ++now); };
  files_.write = [&](const auto&... arguments) {
    enter();
    auto written = WriteShard(arguments...);
    --now;
    return written;
  };
  files_.commit = [&](const auto&... arguments) {
    enter();
    auto committed = Commit(arguments...);
    --now;
    return committed;
  };
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_EQ(most, 1);
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 3, 4, 5, 6));
}

// What a checkpoint has is the state of its step, although later steps have changed it.
TEST_F(AsynchronousCheckpointTest, FilesAndLossesAreThoseOfSynchronousOnes) {
  const auto run = [&](bool asynchronous) {
    asynchronous_ = asynchronous;
    config_.checkpoint_folder = folder_ / (asynchronous ? "copied" : "waited");
    std::filesystem::remove(folder_ / "reports.log");
    EXPECT_EQ(Run().reason, ExitReason::kCompleted);
    std::vector<double> losses;
    for (const v1alpha1::StepReport& step : StepReports()) losses.push_back(step.loss());
    return losses;
  };
  const std::vector<double> waited = run(false);
  SlowFiles();
  EXPECT_EQ(run(true), waited);
  const auto files = FilesOf(folder_ / "waited");
  EXPECT_EQ(files.size(), 9u);  // of three checkpoints
  EXPECT_EQ(FilesOf(folder_ / "copied"), files);
}

TEST_F(AsynchronousCheckpointTest, AFullDiskIsReportedAndTrainingContinues) {
  BeforeFiles([this](int64_t step) -> absl::Status {
    if (step != 2) return absl::OkStatus();
    begun_.Await(3);
    return absl::ResourceExhaustedError("write /disk/file: No space left on device");
  });
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_THAT(Saved(), ElementsAre(4, 6));
  EXPECT_THAT(Reported(),
              testing::Contains("failed 2: rank 0: write /disk/file: No space left on device"));
}

// It is not the newest, so a stop saves that step again.
TEST_F(AsynchronousCheckpointTest, AStopSavesWhatAFailedOneDidNot) {
  BeforeFiles([this, failed = false](int64_t) mutable -> absl::Status {
    if (std::exchange(failed, true)) return absl::OkStatus();
    terminate_ = true;
    return absl::ResourceExhaustedError("No space left on device");
  });
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_THAT(Saved(), ElementsAre(result.state.step));
}

TEST_F(AsynchronousCheckpointTest, ASignalWaitsForTheOneUnderWayAndSavesTheStepsSince) {
  BeforeFiles([this](int64_t step) {
    if (step == 2) begun_.Await(3);
    return absl::OkStatus();
  });
  on_step_ = [this](int64_t step) { terminate_ = step == 3; };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.state.step, 3);
  EXPECT_THAT(Saved(), ElementsAre(2, 3));
  EXPECT_THAT(Reported(), ElementsAre("step 1", "step 2", "step 3", "saved 2", "saved 3"));
}

TEST_F(AsynchronousCheckpointTest, TheLastIsTriedUntilItIsWritten) {
  bool full = true;
  BeforeFiles([&](int64_t step) -> absl::Status {
    if (step < 6 || !full) return absl::OkStatus();
    return absl::ResourceExhaustedError("No space left on device");
  });
  on_sleep_ = [&] { full = slept_ < absl::Seconds(4); };
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(Saved(), ElementsAre(2, 4, 6));
  on_sleep_ = nullptr;
  full = true;
  slept_ = absl::ZeroDuration();
  EXPECT_EQ(Run().reason, ExitReason::kCheckpointFailed);
  EXPECT_EQ(slept_, absl::Seconds(1 + 3 + 9 + 27));
}

// The commit finds the fence, however long ago the copy was made.
TEST_F(AsynchronousCheckpointTest, AnAttemptThatIsFencedMeanwhileEnds) {
  config_.epoch = 4;
  config_.steps = 1000;
  BeforeFiles([this](int64_t) {
    begun_.Await(3);
    return RaiseFence(config_.checkpoint_folder, {Epoch(5), config_.job_uid});
  });
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kStaleEpoch);
  EXPECT_THAT(Saved(), IsEmpty());
  EXPECT_THAT(Reported(), testing::Contains(HasSubstr("expected none newer than ours, 4")));
}

// The step that fails the job has no checkpoint, but the one before is waited for.
TEST_F(AsynchronousCheckpointTest, AJobThatFailsByItsNumbersKeepsTheOneUnderWay) {
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  config_.optimizer.max_skipped_updates = 2;
  BeforeFiles([this](int64_t) {
    begun_.Await(3);
    return absl::OkStatus();
  });
  EXPECT_EQ(Run().reason, ExitReason::kNonFiniteGradients);
  EXPECT_THAT(Saved(), ElementsAre(2));
}

// ---- several ranks

class AsynchronousRanksTest : public AsynchronousCheckpointTest {
 protected:
  AsynchronousRanksTest() {
    config_.engine.tp_size = 2;
    config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e-3;
  }

  std::string FolderOf(Rank rank) { return folder_ / absl::StrCat("rank-", rank.value()); }

  // `on_rank` is called by the thread of each rank before it trains.
  std::vector<TrainResult> RunJob(std::function<void(LocalRank&)> on_rank = {}) {
    std::vector<TrainResult> results(static_cast<size_t>(config_.engine.world_size()));
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      const std::string folder = FolderOf(rank.config.rank);
      std::filesystem::remove_all(folder);
      std::filesystem::create_directories(folder);
      if (on_rank) on_rank(rank);
      results[rank.config.rank.position()] =
          TrainingTest::Run(rank.config, engine, *rank.control, folder, {});
    });
    return results;
  }
};

TEST_F(AsynchronousRanksTest, FilesAreThoseOfSynchronousOnesUnderEveryLayout) {
  for (const auto& [dp_size, zero] : {std::pair(1, 0), {2, 0}, {2, 1}}) {
    SCOPED_TRACE(absl::StrCat(dp_size, " replicas, zero ", zero));
    config_.engine.dp_size = dp_size;
    config_.engine.zero = zero;
    for (bool asynchronous : {false, true}) {
      asynchronous_ = asynchronous;
      config_.checkpoint_folder = folder_ / (asynchronous ? "copied" : "waited");
      for (const TrainResult& result : RunJob()) EXPECT_EQ(result.reason, ExitReason::kCompleted);
    }
    const auto files = FilesOf(folder_ / "waited");
    EXPECT_EQ(files.size(), 3u * static_cast<size_t>(config_.engine.world_size() + 2));
    EXPECT_EQ(FilesOf(folder_ / "copied"), files);
    std::filesystem::remove_all(folder_ / "waited");
    std::filesystem::remove_all(folder_ / "copied");
  }
}

TEST_F(AsynchronousRanksTest, OneRankThatCannotWriteFailsTheCheckpointOfAll) {
  files_.write = [](const std::string& folder, int64_t step, const Attempt& attempt, Rank rank,
                    const std::vector<ShardTensor>& tensors) -> absl::StatusOr<ShardInfo> {
    if (step == 2 && rank == 1) return absl::ResourceExhaustedError("No space left on device");
    return WriteShard(folder, step, attempt, rank, tensors);
  };
  for (const TrainResult& result : RunJob()) EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_THAT(Saved(), ElementsAre(4, 6));
  EXPECT_THAT(Reported(FolderOf(0)),
              testing::Contains("failed 2: rank 1: No space left on device"));
  // Nothing of it is left.
  for (const auto& entry : std::filesystem::directory_iterator(config_.checkpoint_folder))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("tmp")));
}

// A rank that has lost its peers ends without the rest of its file, and removes what it has.
TEST_F(AsynchronousRanksTest, AFileIsGivenUpOnceTrainingHasFailed) {
  std::map<Rank, Communicator*> groups;
  Mutex mu;
  files_.write = [&](const std::string& folder, int64_t step, const Attempt& attempt, Rank rank,
                     const std::vector<ShardTensor>& tensors) -> absl::StatusOr<ShardInfo> {
    if (step == 4) {
      {
        const MutexLock lock(mu);
        groups.at(rank)->Abort();
      }
      while (tensors[0].data.fetch().ok()) std::this_thread::yield();
    }
    return WriteShard(folder, step, attempt, rank, tensors);
  };
  const auto results = RunJob([&](LocalRank& rank) {
    const MutexLock lock(mu);
    groups[rank.config.rank] = rank.control.get();
  });
  for (const TrainResult& result : results) EXPECT_EQ(result.reason, ExitReason::kPeerLost);
  EXPECT_THAT(Saved(), ElementsAre(2));
  EXPECT_THAT(FilesOf(config_.checkpoint_folder), testing::SizeIs(4));
  const auto found =
      FindOwnNewestValid(config_.checkpoint_folder, {Epoch(config_.epoch + 1), config_.job_uid});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.state.step, 2);
}

// All files are there, so rank 0 can commit by itself, and it alone can tell.
TEST_F(AsynchronousRanksTest, ACommitUnderWayIsReportedAlthoughThePeersAreLost) {
  Communicator* group = nullptr;
  files_.commit = [&](const auto&... arguments) {
    group->Abort();
    return Commit(arguments...);
  };
  const auto results = RunJob([&](LocalRank& rank) {
    if (rank.config.rank == 0) group = rank.control.get();
  });
  for (const TrainResult& result : results) EXPECT_EQ(result.reason, ExitReason::kPeerLost);
  EXPECT_THAT(Saved(), ElementsAre(2));
  EXPECT_EQ(Reported(FolderOf(0)).back(), "saved 2");
}

}  // namespace
}  // namespace stretto::trainer
