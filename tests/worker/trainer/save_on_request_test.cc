// SPDX-License-Identifier: Apache-2.0

// Checkpoints that the daemon asks for while a job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;

v1alpha1::DaemonMessage Save(int64_t request) {
  v1alpha1::DaemonMessage message;
  message.mutable_save()->set_request(request);
  return message;
}

class SaveOnRequestTest : public TrainingTest {
 protected:
  // The request comes while step 2 is evaluated.
  SaveOnRequestTest() {
    config_.checkpoint_interval = 0;
    Evaluate();
    on_link_ = [this](DaemonLink& link) { link_ = &link; };
    on_evaluation_ = [this](OpId, int64_t) {
      if (!std::exchange(asked_, true)) link_->Take(Save(1));
    };
  }
  double CheckpointSeconds(int64_t step) {
    double seconds = 0;
    for (const v1alpha1::StepReport& report : StepReports()) {
      if (report.step() != step) continue;
      for (const v1alpha1::Ledger::Entry& entry : report.ledger().entries()) {
        if (entry.part() == v1alpha1::Ledger::CHECKPOINT_WAIT) seconds += entry.seconds();
      }
    }
    return seconds;
  }

  DaemonLink* link_ = nullptr;
  bool asked_ = false;
};

TEST_F(SaveOnRequestTest, SavesAfterTheStepAndContinues) {
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(Steps(), ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(Saved(), ElementsAre(2, 6));
  EXPECT_THAT(CheckpointReports(folder_.path()), ElementsAre("2 answers 1", "6 answers 1"));
  EXPECT_EQ(CheckpointSeconds(2), 0);
  EXPECT_GT(CheckpointSeconds(3), 0);  // the time belongs to the step that it delayed
  EXPECT_EQ(CheckpointSeconds(4), 0);
}

TEST_F(SaveOnRequestTest, ACheckpointThatIsDueAnswers) {
  config_.checkpoint_interval = 2;
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(CheckpointReports(folder_.path()),
              ElementsAre("2 answers 1", "4 answers 1", "6 answers 1"));
}

// What is on disk may be older than the request.
TEST_F(SaveOnRequestTest, TheCheckpointThatARunResumedFromDoesNotAnswer) {
  asked_ = true;
  on_link_ = [](DaemonLink& link) { link.Take(Save(5)); };
  EXPECT_EQ(Run({.step = 3, .updates = 3, .consumed_samples = 18}).reason, ExitReason::kCompleted);
  EXPECT_THAT(Saved(), ElementsAre(4, 6));
  EXPECT_THAT(CheckpointReports(folder_.path()), ElementsAre("4 answers 5", "6 answers 5"));
}

// A request is answered once, whatever the answer.
TEST_F(SaveOnRequestTest, AFullDiskIsReportedAndTrainingContinues) {
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  on_sleep_ = [this] { std::filesystem::remove(config_.checkpoint_folder); };
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(CheckpointReports(folder_.path()),
              ElementsAre("2 failed, answers 1", "6 failed, answers 1", "6 answers 1"));
}

TEST_F(SaveOnRequestTest, AJobWithoutCheckpointsWritesNone) {
  config_.checkpoint_disabled = true;
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(Saved(), ElementsAre());
}

// Only rank 0 hears of the request.
TEST_F(SaveOnRequestTest, AllRanksSaveAtTheSameStep) {
  config_.engine.tp_size = 2;
  config_.evaluation = {};
  on_link_ = [](DaemonLink& link) { link.Take(Save(1)); };
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    const std::string run_folder = folder_ / std::to_string(rank.config.rank.value());
    std::filesystem::create_directory(run_folder);
    const TrainResult result = Run(rank.config, engine, *rank.control, run_folder, {});
    EXPECT_EQ(result.reason, ExitReason::kCompleted) << result.status;
  });
  EXPECT_THAT(Saved(), ElementsAre(1, 6));
  EXPECT_THAT(CheckpointReports(folder_ / "0"), ElementsAre("1 answers 1", "6 answers 1"));
  EXPECT_THAT(CheckpointReports(folder_ / "1"), ElementsAre());
}

}  // namespace
}  // namespace stretto::trainer
