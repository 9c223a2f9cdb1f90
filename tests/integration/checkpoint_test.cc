// SPDX-License-Identifier: Apache-2.0

// Checkpoints, and going on from them.

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public ClusterTest {
 protected:
  std::set<std::string> FoldersOf(const std::string& job) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(CheckpointFolder(job))) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  std::string Shard(const std::string& job, const std::string& step, int rank) {
    return absl::StrCat(CheckpointFolder(job), "/step-000000", step, "/rank-0000", rank,
                        ".safetensors");
  }
};

void FlipByte(const std::string& path, int64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const int byte = file.get();
  file.seekp(-from_end, std::ios::end);
  file.put(static_cast<char>(byte ^ 0x10));
  ASSERT_TRUE(file.good());
}

// The learning rate must not depend on where a run stops.
constexpr char kDecay[] = "optimizer: {warmup_steps: 3, decay_steps: 20}\n";

// Otherwise the job would learn it from its first checkpoint, which may be hours later.
TEST_F(CheckpointTest, NodesWithRootsOfTheirOwnAreRefusedBeforeTheFirstStep) {
  StartCoordinator();
  StartWorker("node-a", 1);
  checkpoint_root_ = Path("elsewhere");
  StartWorker("node-b", 1);
  const Json job = RunJob({.name = "apart", .steps = 2, .tp_size = 1, .dp_size = 2}, "failed");
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "PrepareFailed") << job.dump(1);
  EXPECT_THAT(ended["message"].get<std::string>(),
              AllOf(HasSubstr("checkpoint root: rank 1 does not see "),
                    HasSubstr("/apart.shared, which rank 0 has written")));
  RunJob({.name = "without",
          .steps = 2,
          .tp_size = 1,
          .dp_size = 2,
          .more = "checkpoint: {disabled: true}\n"});
}

TEST_F(CheckpointTest, ResumedRunIsBitwiseTheRunThatNeverStopped) {
  StartCluster();
  RunJob({.name = "straight", .steps = 20, .more = kDecay});
  RunJob({.name = "half",
          .steps = 10,
          .more = absl::StrCat(kDecay, "checkpoint: {interval_steps: 5}\n")});
  EXPECT_EQ(FoldersOf("half"), (std::set<std::string>{"step-00000005", "step-00000010"}));
  const Json resumed = RunJob({.name = "resumed",
                               .steps = 20,
                               .more = absl::StrCat(kDecay, "checkpoint: {resume_from: half}\n")});
  EXPECT_EQ(Int(resumed["progress"]["steps"]), 20);

  const std::vector<Json> straight = Steps("straight"), rest = Steps("resumed");
  ASSERT_EQ(NumbersOf(straight), Range(1, 20));
  ASSERT_EQ(NumbersOf(rest), Range(11, 20));
  for (size_t i = 0; i < rest.size(); ++i) {
    // Printed with all digits, so that equal text is equal bits.
    for (const char* field : {"loss", "grad_norm", "learning_rate"}) {
      EXPECT_EQ(rest[i][field].dump(), straight[i + 10][field].dump())
          << field << " of step " << i + 11;
    }
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(ContentOf(Shard("resumed", "20", rank)), ContentOf(Shard("straight", "20", rank)));
  }
}

TEST_F(CheckpointTest, NewestAreKeptAndADamagedOneIsPassedOver) {
  StartCluster();
  RunJob({.name = "saved",
          .steps = 12,
          .more = "checkpoint: {interval_steps: 3, keep: 2}\n"
                  "optimizer: {decay_steps: 20}\n"});
  EXPECT_EQ(FoldersOf("saved"), (std::set<std::string>{"step-00000009", "step-00000012"}));
  FlipByte(Shard("saved", "12", 1), 100);
  const Json job = RunJob({.name = "rescued",
                           .steps = 14,
                           .more = "checkpoint: {resume_from: saved}\n"
                                   "optimizer: {decay_steps: 20}\n"});
  EXPECT_EQ(Int(job["progress"]["steps"]), 14);
  EXPECT_EQ(NumbersOf(Steps("rescued")), Range(10, 14));
  // The other job's folder is as it was.
  EXPECT_EQ(FoldersOf("saved"), (std::set<std::string>{"step-00000009", "step-00000012"}));
  EXPECT_THAT(ReadRun("rescued", 0, "trainer.log"),
              AllOf(HasSubstr("checkpoint passed over"),
                    HasSubstr("rank-00001.safetensors: crc32c: found")));
  // Asked for by name it is not passed over.
  FlipByte(Shard("saved", "09", 0), 100);
  const Json failed = RunJob({.name = "exact",
                              .steps = 14,
                              .more = "checkpoint: {resume_from: saved/step-00000009}\n"
                                      "optimizer: {decay_steps: 20}\n"},
                             "failed");
  const Json ended = ConditionOf(failed, "Succeeded");
  EXPECT_EQ(ended["reason"], "CheckpointInvalid");
  EXPECT_THAT(ended["message"].get<std::string>(),
              AllOf(HasSubstr("step-00000009/rank-00000.safetensors: crc32c: found"),
                    HasSubstr("expected")));
}

// The most common wish: to train on for longer.
TEST_F(CheckpointTest, MoreStepsKeepTheScheduleOfTheLearningRate) {
  StartCluster();
  RunJob({.name = "short", .steps = 4});
  const Json job =
      RunJob({.name = "longer", .steps = 6, .more = "checkpoint: {resume_from: short}\n"});
  const Json kept = ConditionOf(job, "LearningRateKept");
  EXPECT_EQ(kept["status"], "true");
  EXPECT_THAT(kept["message"].get<std::string>(), HasSubstr("falls until step 4,"));
  const std::vector<Json> steps = Steps("longer");
  ASSERT_EQ(steps.size(), 2u);
  // The decay has ended.
  for (const Json& step : steps) EXPECT_NEAR(step["learning_rate"].get<double>(), 1e-4, 1e-9);
  // A second continuation has it from the checkpoint of the first.
  RunJob({.name = "longest", .steps = 8, .more = "checkpoint: {resume_from: longer}\n"});
}

TEST_F(CheckpointTest, ResumeOfAnotherModelNamesWhatDiffers) {
  StartCluster();
  RunJob({.name = "small", .steps = 2});
  const std::string model =
      "{layers: 2, hidden: 32, heads: 4, sequence_length: 64, vocab_size: 257}";
  // The coordinator has the settings of the job alone; so that the trainers decide, they get the
  // checkpoint under another name.
  fs::copy(CheckpointFolder("small"), CheckpointFolder("copy"), fs::copy_options::recursive);
  const Json narrower = RunJob(
      {.name = "narrower", .steps = 4, .model = model, .more = "checkpoint: {resume_from: copy}\n"},
      "failed");
  EXPECT_FALSE(narrower.contains("submit_to_first_step"));
  const Json ended = ConditionOf(narrower, "Succeeded");
  EXPECT_EQ(ended["reason"], "ResumeRefused");
  EXPECT_THAT(ended["message"].get<std::string>(),
              AllOf(HasSubstr("checkpoints/copy/step-00000002: "),
                    HasSubstr("model.hidden: found 64, expected 32"), HasSubstr("in prepare")));
  EXPECT_EQ(ConditionOf(narrower, "Prepared")["status"], "false");

  const Json other = RunJob({.name = "other-rate",
                             .steps = 4,
                             .more = "checkpoint: {resume_from: copy}\n"
                                     "optimizer: {learning_rate: 2.0e-3}\n"},
                            "failed");
  EXPECT_THAT(ConditionOf(other, "Succeeded")["message"].get<std::string>(),
              HasSubstr("optimizer.learning_rate: found 0.001, expected 0.002"));
  const Outcome refused = Stretto(Submit({.name = "at-once",
                                          .steps = 4,
                                          .more = "checkpoint: {resume_from: small}\n"
                                                  "optimizer: {learning_rate: 2.0e-3}\n"},
                                         {}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("found 0.002, expected 0.001 as in job small"));
  const Json missing = RunJob(
      {.name = "missing", .steps = 4, .more = "checkpoint: {resume_from: nobody}\n"}, "failed");
  EXPECT_THAT(ConditionOf(missing, "Succeeded")["message"].get<std::string>(),
              HasSubstr("checkpoint.resume_from: read folder"));
  EXPECT_EQ(ConditionOf(missing, "Succeeded")["reason"], "ResumeRefused");
}

}  // namespace
}  // namespace stretto::integration
