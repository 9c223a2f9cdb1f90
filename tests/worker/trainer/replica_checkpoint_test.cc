// SPDX-License-Identifier: Apache-2.0

// Checkpoints and reports of a job with several replicas.

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "proto/base/box.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"
#include "worker/engine/model/buckets.h"
#include "worker/trainer/plan/writers.h"
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

  void ExpectLossesOfOneStage(int chunks);

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

// What the ranks of a job write to a checkpoint.
struct Written {
  std::map<std::string, std::vector<Box>> boxes;  // of each tensor
  std::map<Rank, int64_t> elements;

  int64_t all() const {
    int64_t sum = 0;
    for (const auto& [rank, count] : elements) sum += count;
    return sum;
  }
};

Written WrittenBy(const JobConfig& config) {
  std::mutex mu;
  Written written;
  OnLocalEngines(config, [&](LocalRank& rank, RankEngine& engine) {
    const std::lock_guard lock(mu);
    for (const ShardTensor& tensor : engine.OwnedStateTensors()) {
      written.boxes[tensor.name].push_back({tensor.starts, tensor.extents});
      written.elements[rank.config.rank] += *TensorBytes("F32", tensor.extents) / 4;
    }
  });
  return written;
}

// Expects the boxes of every tensor to be disjoint and to have all its elements.
void ExpectEachElementOnce(const EngineSpec& spec, const Written& written) {
  int64_t elements = 0;
  for (const Parameter& parameter : ParametersOf(spec.model, 1, 0)) {
    for (Slot slot : {Slot::kMaster, Slot::kMoment1, Slot::kMoment2}) {
      elements += parameter.count();
      const std::vector<Box>& boxes = written.boxes.at(NameOfState(parameter, slot));
      Box common;
      for (size_t a = 0; a < boxes.size(); ++a) {
        for (size_t b = 0; b < a; ++b)
          EXPECT_FALSE(Intersect(boxes[a], boxes[b], &common)) << NameOfState(parameter, slot);
      }
    }
  }
  EXPECT_EQ(written.all(), elements);
  const Writers writers(spec);  // what a copy takes
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    const auto found = written.elements.find(rank);
    EXPECT_EQ(writers.BytesOf(rank), 4 * (found == written.elements.end() ? 0 : found->second));
  }
}

// Parameters that ranks hold whole, those that they share, a tied embedding in two stages, and,
// with ZeRO, parts of all of them.
TEST_F(ReplicaCheckpointTest, EachElementIsWrittenOnce) {
  config_.engine.model.layers = 2;
  for (int pp_size : {1, 2}) {
    for (int dp_size : {1, 2, 3}) {
      for (int zero : {0, 1}) {
        for (bool sequence_parallel : {false, true}) {
          SCOPED_TRACE(
              absl::StrCat(pp_size, " x ", dp_size, " zero ", zero, " ", sequence_parallel));
          config_.engine.pp_size = pp_size;
          config_.engine.dp_size = dp_size;
          config_.engine.zero = dp_size > 1 ? zero : 0;
          config_.engine.schedule.sequence_parallel = sequence_parallel;
          ExpectEachElementOnce(config_.engine, WrittenBy(config_));
        }
      }
    }
  }
}

// Of two stages, the first has layers 0 and 2.
TEST_F(ReplicaCheckpointTest, EachElementOfAChunkIsWrittenOnce) {
  config_.engine.model.layers = 4;
  config_.engine.pp_size = config_.engine.chunks_per_stage = 2;
  config_.engine.schedule.pipeline = "interleaved_1f1b";
  config_.engine.dp_size = 2;
  config_.engine.micro_batches = 2;
  for (int zero : {0, 1}) {
    config_.engine.zero = zero;
    ExpectEachElementOnce(config_.engine, WrittenBy(config_));
  }
}

// A tied embedding has other shards in the last stage, which are not written.
TEST_F(ReplicaCheckpointTest, EachElementOfUnlikeStagesIsWrittenOnce) {
  config_.engine.model.layers = 2;
  config_.engine.pp_size = 2;
  config_.engine.dp_size = 2;
  for (int first : {1, 2}) {
    config_.engine.stages = {{.layers = 1, .tp_size = first}, {.layers = 1, .tp_size = 3 - first}};
    for (int zero : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(first, " ranks first, zero ", zero));
      config_.engine.zero = zero;
      ExpectEachElementOnce(config_.engine, WrittenBy(config_));
    }
  }
}

// Both stages have a tied embedding, in other shards or in other parts.
TEST_F(ReplicaCheckpointTest, EachElementOfUnlikeReplicasIsWrittenOnce) {
  config_.engine.model.layers = 2;
  config_.engine.pp_size = 2;
  config_.engine.dp_size = 6;
  for (const auto& [first, last] : {std::pair(2, 1), {1, 3}, {2, 3}}) {
    for (int tp_size : {1, 2}) {
      config_.engine.stages = {{.layers = 1, .tp_size = tp_size, .dp_size = first},
                               {.layers = 1, .tp_size = 2, .dp_size = last}};
      for (int zero : {0, 1}) {
        SCOPED_TRACE(absl::StrCat(first, " x ", tp_size, " and ", last, " zero ", zero));
        config_.engine.zero = zero;
        ExpectEachElementOnce(config_.engine, WrittenBy(config_));
      }
    }
  }
}

// Without ZeRO a parameter is written by one rank. The largest is the embedding, of which a rank
// has 64 x 16 elements and which is more than a third of the whole, so its writer writes nothing
// else. With ZeRO every rank writes about as much as the others.
TEST_F(ReplicaCheckpointTest, RanksShareTheWriting) {
  config_.engine.dp_size = 3;
  const auto most = [&] {
    int64_t most = 0;
    for (const auto& [rank, elements] : WrittenBy(config_).elements)
      most = std::max(most, elements);
    return most;
  };
  const int64_t largest_parameter = 3 * 64 * 16;
  EXPECT_EQ(most(), largest_parameter);
  config_.engine.zero = 1;
  const int64_t mean = WrittenBy(config_).all() / config_.engine.world_size();
  // A part of a bucket is rounded up to 32 elements, each of a master and two moments.
  const Buckets buckets(config_.engine, 0, ParametersOf(config_.engine, 0));
  EXPECT_LE(most(), mean + 3 * 32 * std::ssize(buckets.all()));
  EXPECT_LT(most(), largest_parameter);
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

// Losses with the optimizer's state in parts are those without, bit by bit, and a checkpoint of one
// is one of the other.
TEST_F(ReplicaCheckpointTest, SharedUpdatesChangeNoBit) {
  config_.engine.dp_size = 2;
  const std::string checkpoints = config_.checkpoint_folder;
  const auto run = [&](int zero, int steps, const std::string& from) {
    for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));
    config_.engine.zero = zero;
    config_.steps = steps;
    config_.resume_folder = from;
    config_.checkpoint_folder = absl::StrCat(checkpoints, "-", zero, "-", steps, from.size());
    std::filesystem::remove_all(config_.checkpoint_folder);
    RunJob();
    return LossesOf(0);
  };
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    config_.engine.dtype = config_.engine.wire_dtype = dtype;
    const auto whole = run(0, 4, "");
    ASSERT_EQ(whole.size(), 4u);
    EXPECT_EQ(run(1, 4, ""), whole);
    for (int zero : {0, 1}) {
      run(zero, 2, "");
      const auto rest = run(1 - zero, 4, config_.checkpoint_folder);
      ASSERT_EQ(rest.size(), 2u);
      for (int64_t step : {3, 4}) EXPECT_EQ(rest.at(step), whole.at(step)) << zero;
    }
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

// The checkpoint compares what replicas of a stage hold and, without ZeRO, both copies of the tied
// embedding.
TEST_F(ReplicaCheckpointTest, EveryRankOfUnlikeReplicasReportsTheLossOfTheJob) {
  config_.engine.model.layers = 2;
  config_.engine.micro_batches = 4;
  RunJob();
  const auto of_one = LossesOf(0);
  ASSERT_EQ(of_one.size(), 2u);
  config_.engine.micro_batches = 2;
  config_.engine.pp_size = config_.engine.dp_size = 2;
  for (int first : {1, 2}) {
    config_.engine.stages = {{.layers = 1, .tp_size = 2, .dp_size = first},
                             {.layers = 1, .tp_size = 2, .dp_size = 3 - first}};
    for (int zero : {0, 1}) {
      std::filesystem::remove_all(config_.checkpoint_folder);
      for (Rank rank : IdRange<Rank>(6)) std::filesystem::remove_all(FolderOf(rank));
      config_.engine.zero = zero;
      RunJob();
      const auto losses = LossesOf(0);
      for (Rank rank : IdRange<Rank>(6)) EXPECT_EQ(LossesOf(rank), losses) << rank.value();
      EXPECT_EQ(losses.at(1), of_one.at(1));
      EXPECT_NEAR(losses.at(2), of_one.at(2), 1e-5 * of_one.at(2));
    }
  }
}

// Runs the job in one stage and in two, of this many chunks. The losses of stages are those of one,
// whose head is not tied: bit by bit, also after updates.
void ReplicaCheckpointTest::ExpectLossesOfOneStage(int chunks) {
  config_.engine.model.tied_head = false;
  RunJob();
  const auto of_one = LossesOf(0);
  ASSERT_EQ(of_one.size(), 2u);
  std::filesystem::remove_all(config_.checkpoint_folder);
  for (Rank rank : IdRange<Rank>(4)) std::filesystem::remove_all(FolderOf(rank));
  config_.engine.pp_size = 2;
  config_.engine.chunks_per_stage = chunks;
  if (chunks > 1) config_.engine.schedule.pipeline = "interleaved_1f1b";
  RunJob();
  for (Rank rank : IdRange<Rank>(4)) EXPECT_EQ(LossesOf(rank), of_one) << rank.value();
}

TEST_F(ReplicaCheckpointTest, StagesReportTheLossesOfOneStage) {
  config_.engine.model.layers = 2;
  config_.engine.micro_batches = 3;
  ExpectLossesOfOneStage(1);
}

TEST_F(ReplicaCheckpointTest, ChunksReportTheLossesOfOneStage) {
  config_.engine.model.layers = 5;
  config_.engine.micro_batches = 4;
  ExpectLossesOfOneStage(2);
}

}  // namespace
}  // namespace stretto::trainer
