// SPDX-License-Identifier: Apache-2.0

// Checkpoints and reports of a job with several replicas.

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"
#include "worker/trainer/saved_state.h"

namespace stretto::trainer {
namespace {

class ReplicaCheckpointTest : public TrainingTest {
 protected:
  ReplicaCheckpointTest() {
    config_.engine.tp_size = 2;
    config_.engine.micro_batches = 1;
    config_.steps = 2;
    config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e-3;
    config_.spec_hash = "spec";
    config_.math_hash = "math";
  }

  // Runs the job, from its checkpoint if it names one; every rank has a run folder of its own.
  void RunJob() {
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      TrainState state;
      const auto saved = FindSavedState(rank.config, *rank.control);
      ASSERT_TRUE(saved.ok()) << saved.status();
      if (*saved != nullptr) {
        const auto resumed = Resume(rank.config, "", **saved, engine);
        ASSERT_TRUE(resumed.ok()) << resumed.status();
        state = *resumed;
        EXPECT_EQ(state.step, 2);
        EXPECT_EQ(state.exact, config_.spec_hash == "spec");
      }
      const std::string run = FolderOf(rank.config.rank);
      std::filesystem::create_directories(run);
      const TrainResult result = Run(rank.config, engine, *rank.control, run, state);
      EXPECT_EQ(result.reason, ExitReason::kCompleted) << result.status;
      EXPECT_EQ(result.state.consumed_samples, config_.steps * config_.engine.sequences_per_step());
    });
  }
  std::string FolderOf(Rank rank) { return folder_ / absl::StrCat("rank-", rank.value()); }

  // The losses that a rank has reported, by step.
  std::map<int64_t, double> LossesOf(Rank rank) {
    std::map<int64_t, double> losses;
    const auto reports = ReadAfter(FolderOf(rank) + "/reports.log", 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    for (const v1alpha1::RankReport& report : *reports) {
      if (report.has_step()) losses[report.step().step()] = report.step().loss();
    }
    return losses;
  }
};

TEST_F(ReplicaCheckpointTest, EachShardIsWrittenOnce) {
  config_.engine.dp_size = 3;
  std::mutex mu;
  std::multiset<std::pair<std::string, GroupRank>> written;
  size_t held = 0;
  int64_t most = 0;  // elements that a rank writes
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    const std::vector<ShardTensor> owned = engine.OwnedStateTensors();
    const std::lock_guard lock(mu);
    held = engine.StateTensors().size();
    int64_t elements = 0;
    for (const ShardTensor& tensor : owned) {
      elements += *TensorBytes("F32", tensor.extents) / 4;
      written.emplace(tensor.name, PlaceOf(config_.engine, rank.config.rank).tp_rank);
    }
    most = std::max(most, elements);
  });
  EXPECT_EQ(written.size(), 2 * held);
  // The largest parameter is the embedding, of which a rank has 64 x 16 elements. It is more than a
  // third of the whole, so its writer writes nothing else.
  EXPECT_EQ(most, 3 * 64 * 16);
  EXPECT_EQ(std::set(written.begin(), written.end()).size(), written.size());
}

// A tied embedding is in both stages, and the first one writes it.
TEST_F(ReplicaCheckpointTest, EachShardOfStagesIsWrittenOnce) {
  config_.engine.dp_size = config_.engine.pp_size = 2;
  config_.engine.model.layers = 2;
  std::mutex mu;
  std::multiset<std::pair<std::string, GroupRank>> written;
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    const Place place = PlaceOf(config_.engine, rank.config.rank);
    const std::lock_guard lock(mu);
    for (const ShardTensor& tensor : engine.OwnedStateTensors()) {
      written.emplace(tensor.name, place.tp_rank);
      if (tensor.name == "embedding.token.weight") {
        EXPECT_EQ(place.stage, 0);
      }
    }
  });
  std::multiset<std::pair<std::string, GroupRank>> expected;
  for (GroupRank tp_rank : IdRange<GroupRank>(2)) {
    for (const Parameter& parameter : ParametersOf(config_.engine.model, 2, tp_rank)) {
      for (Slot slot : {Slot::kMaster, Slot::kMoment1, Slot::kMoment2})
        expected.emplace(NameOfState(parameter, slot), tp_rank);
    }
  }
  EXPECT_EQ(written, expected);
}

TEST_F(ReplicaCheckpointTest, IsWholeAndNamesTheRanks) {
  config_.engine.dp_size = 2;
  RunJob();
  const auto checkpoint = Checkpoint::Open(config_.checkpoint_folder + "/" + CheckpointName(2));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest().state.world_size, 4);
  EXPECT_EQ(checkpoint->manifest().state.tp_size, 2);
  EXPECT_EQ(checkpoint->manifest().files.size(), 4u);
  for (const Parameter& parameter : ParametersOf(config_.engine.model, 1, 0)) {
    std::vector<float> values(static_cast<size_t>(parameter.count()));
    EXPECT_TRUE(checkpoint
                    ->Read(NameOfState(parameter, Slot::kMoment2), "F32", parameter.starts,
                           parameter.extents, values.data())
                    .ok())
        << parameter.name;
  }
}

// A step has four sequences, on four ranks or on one.
TEST_F(ReplicaCheckpointTest, GoesOnUnderAnotherLayoutWithinRounding) {
  const auto four_ranks = [&] {
    config_.engine.tp_size = config_.engine.dp_size = 2;
    config_.engine.micro_batches = 1;
  };
  const auto one_rank = [&] {
    config_.engine.tp_size = config_.engine.dp_size = 1;
    config_.engine.micro_batches = 2;
  };
  const std::string checkpoints = config_.checkpoint_folder;
  for (bool from_four : {true, false}) {
    from_four ? four_ranks() : one_rank();
    config_.spec_hash = "spec";
    config_.resume_folder = "";
    config_.steps = 4;
    config_.checkpoint_folder = checkpoints + "-whole";
    RunJob();
    const auto whole = LossesOf(0);
    for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));
    config_.steps = 2;
    config_.checkpoint_folder = checkpoints;
    RunJob();
    for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));

    from_four ? one_rank() : four_ranks();
    config_.spec_hash = "another layout";
    config_.steps = 4;
    config_.resume_folder = checkpoints;
    RunJob();
    const auto rest = LossesOf(0);
    ASSERT_EQ(rest.size(), 2u);
    for (int64_t step : {3, 4}) EXPECT_NEAR(rest.at(step), whole.at(step), 1e-5 * whole.at(step));
    std::filesystem::remove_all(checkpoints);
    std::filesystem::remove_all(checkpoints + "-whole");
  }
}

TEST_F(ReplicaCheckpointTest, ARunOfOtherMathematicsIsRefused) {
  config_.engine.dp_size = 1;
  RunJob();
  config_.resume_folder = config_.checkpoint_folder;
  config_.spec_hash = "another";
  config_.math_hash = "another";
  const auto refused = [&] {
    const auto control = LocalGroup::Create(1);
    const auto saved = FindSavedState(config_, *control[0]);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return Resume(config_, "", **saved, *MakeEngine()).status();
  };
  config_.engine.tp_size = 1;
  EXPECT_EQ(refused().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused().message()),
              testing::HasSubstr("math_hash: found math, expected another"));
}

// The loss of the first step depends on no update, so it is bitwise equal to that of one replica.
TEST_F(ReplicaCheckpointTest, EveryRankReportsTheLossOfTheJob) {
  config_.engine.dp_size = 2;
  RunJob();
  const auto losses = LossesOf(0);
  ASSERT_EQ(losses.size(), 2u);
  for (Rank rank : IdRange<Rank>(4)) EXPECT_EQ(LossesOf(rank), losses) << rank.value();

  std::filesystem::remove_all(config_.checkpoint_folder);
  for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));
  config_.engine.dp_size = 1;
  config_.engine.micro_batches = 2;
  RunJob();
  const auto of_one = LossesOf(0);
  EXPECT_EQ(of_one.at(1), losses.at(1));
  EXPECT_NEAR(of_one.at(2), losses.at(2), 1e-5 * losses.at(2));
}

// The losses of stages are those of one, whose head is not tied: bit by bit, also after updates.
TEST_F(ReplicaCheckpointTest, StagesReportTheLossesOfOneStage) {
  config_.engine.model.layers = 2;
  config_.engine.model.tied_head = false;
  config_.engine.micro_batches = 3;
  RunJob();
  const auto of_one = LossesOf(0);
  ASSERT_EQ(of_one.size(), 2u);
  std::filesystem::remove_all(config_.checkpoint_folder);
  for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));
  config_.engine.pp_size = 2;
  RunJob();
  for (Rank rank : IdRange<Rank>(4)) EXPECT_EQ(LossesOf(rank), of_one) << rank.value();
}

}  // namespace
}  // namespace stretto::trainer
