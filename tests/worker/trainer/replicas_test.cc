// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/replicas.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <functional>
#include <map>
#include <thread>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A job of two ranks.
class ReplicasTest : public TrainingTest {
 protected:
  ReplicasTest() { config_.engine.tp_size = 2; }

  using OnRank = std::function<void(const JobConfig&, RankEngine&, Communicator&)>;
  void OnRanks(const OnRank& run) {
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      run(rank.config, engine, *rank.control);
    });
  }

  // In the last element of a tensor, by NameOfState.
  static void FlipBit(RankEngine& engine, const std::string& name) {
    for (const ShardTensor& tensor : engine.StateTensors()) {
      if (tensor.name != name) continue;
      const int64_t count = *TensorBytes("F32", tensor.extents) / 4;
      auto* last = const_cast<float*>(static_cast<const float*>(*tensor.data.fetch())) + count - 1;
      *last = std::bit_cast<float>(std::bit_cast<uint32_t>(*last) ^ 1u);
      return;
    }
    FAIL() << "no tensor " << name;
  }

  // What every rank says once rank 1 has this bit wrong.
  absl::Status CheckWith(const std::string& wrong) {
    std::array<absl::Status, 2> found;
    OnRanks([&](const JobConfig& config, RankEngine& engine, Communicator& control) {
      if (config.rank == 1 && !wrong.empty()) FlipBit(engine, wrong);
      found[config.rank.position()] = CheckReplicas(config_.engine, engine, control);
    });
    EXPECT_EQ(found[0], found[1]);
    return found[0];
  }
};

TEST_F(ReplicasTest, EveryReplicatedTensorIsCompared) {
  EXPECT_TRUE(CheckWith("").ok()) << CheckWith("");
  int replicated = 0;
  for (const Parameter& parameter : ParametersOf(config_.engine.model, 2, 0)) {
    for (const Slot slot : {Slot::kMaster, Slot::kMoment1, Slot::kMoment2}) {
      const std::string name = NameOfState(parameter, slot);
      const absl::Status found = CheckWith(name);
      if (parameter.sharded()) {
        EXPECT_TRUE(found.ok()) << found;  // each rank has a part of its own
        continue;
      }
      ++replicated;
      EXPECT_EQ(found.code(), absl::StatusCode::kDataLoss) << name;
      EXPECT_THAT(std::string(found.message()), HasSubstr("tensor " + name + ": found checksum "));
      EXPECT_THAT(std::string(found.message()), HasSubstr(" on rank 1, expected "));
    }
  }
  EXPECT_GT(replicated, 0);
}

// Two replicas of one rank each hold everything; of two ranks each, the same shards.
TEST_F(ReplicasTest, TensorsOfReplicasAreComparedWithThoseOfTheFirst) {
  config_.engine.micro_batches = 1;
  config_.engine.dp_size = 2;
  for (int tp_size : {1, 2}) {
    config_.engine.tp_size = tp_size;
    for (const char* name : {"layers.0.mlp.fc1.weight", "layers.0.ln1.weight.m"}) {
      std::vector<absl::Status> found(static_cast<size_t>(config_.engine.world_size()));
      OnRanks([&](const JobConfig& config, RankEngine& engine, Communicator& control) {
        absl::Status& mine = found[config.rank.position()];
        mine = CheckReplicas(config.engine, engine, control);
        EXPECT_TRUE(mine.ok()) << mine;
        if (config.rank == tp_size) FlipBit(engine, name);
        mine = CheckReplicas(config.engine, engine, control);
      });
      for (const absl::Status& status : found) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat(" on rank ", tp_size, ", expected ")));
        EXPECT_THAT(std::string(status.message()), HasSubstr(" as on rank 0: "));
      }
    }
  }
}

// With ZeRO, replicas hold different elements of what they share, so nobody can compare them; ranks
// of a replica hold the same elements of what is not sharded.
TEST_F(ReplicasTest, PartsOfReplicasAreComparedWithinOne) {
  config_.engine.micro_batches = 1;
  config_.engine.dp_size = 2;
  config_.engine.zero = 1;
  for (const auto& [name, found_by] : std::map<std::string, bool>{
           {"layers.0.mlp.fc1.weight", false}, {"layers.0.ln2.weight", true}}) {
    std::vector<absl::Status> found(4);
    // clang 14 captures no binding by a default.
    OnRanks([&, &name = name](const JobConfig& config, RankEngine& engine, Communicator& control) {
      absl::Status& mine = found[config.rank.position()];
      mine = CheckReplicas(config.engine, engine, control);
      EXPECT_TRUE(mine.ok()) << mine;
      const auto tensors = engine.StateTensors();
      const bool holds =
          std::any_of(tensors.begin(), tensors.end(),
                      [&](const ShardTensor& tensor) { return tensor.name == name; });
      if (config.rank.value() % 2 == 1 && holds) FlipBit(engine, name);
      mine = CheckReplicas(config.engine, engine, control);
    });
    for (const absl::Status& status : found) EXPECT_EQ(status.ok(), !found_by) << name << status;
  }
}

// Of two stages, both hold a tied embedding; nothing else is in both.
TEST_F(ReplicasTest, ATiedEmbeddingIsComparedBetweenTheStages) {
  config_.engine.tp_size = 1;
  config_.engine.pp_size = 2;
  config_.engine.model.layers = 2;
  EXPECT_TRUE(CheckWith("layers.1.ln1.weight").ok());
  const absl::Status found = CheckWith("embedding.token.weight.v");
  EXPECT_EQ(found.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(found.message()),
              HasSubstr("tensor embedding.token.weight.v: found checksum "));
  EXPECT_THAT(std::string(found.message()), HasSubstr(" on rank 1, expected "));
}

// Between the second and the third checkpoint a rank loses a bit.
TEST_F(ReplicasTest, ACheckpointOfRanksThatDriftedApartFailsTheJob) {
  OnRanks([&](const JobConfig& whole, RankEngine& engine, Communicator& control) {
    const std::string run = folder_ / ("rank-" + std::to_string(whole.rank.value()));
    std::filesystem::create_directories(run);
    JobConfig half = whole;
    half.steps = 2;
    const TrainResult before = Run(half, engine, control, run, {});
    EXPECT_EQ(before.reason, ExitReason::kCompleted) << before.status;
    if (whole.rank == 1) FlipBit(engine, "layers.0.ln1.weight");
    const TrainResult after = Run(whole, engine, control, run, before.state);
    EXPECT_EQ(after.reason, ExitReason::kReplicasDiffer);
    EXPECT_EQ(after.state.step, 3);
    EXPECT_THAT(std::string(after.status.message()), HasSubstr("they have drifted apart"));
  });
  EXPECT_THAT(Saved(), ElementsAre(1, 2));
  for (const auto& entry : std::filesystem::directory_iterator(config_.checkpoint_folder)) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".tmp")));
  }
}

}  // namespace
}  // namespace stretto::trainer
