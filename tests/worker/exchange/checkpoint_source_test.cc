// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/checkpoint_source.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/exchange/model_note.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Checkpoints of a golden model as two ranks write them.
class CheckpointSourceTest : public testing::Test {
 protected:
  CheckpointSourceTest() : golden_(*OpenGolden("hf:llama3")) {}

  std::string Write(int64_t step, int64_t epoch, std::optional<double> loss = {}) {
    std::vector<ShardInfo> shards;
    for (int rank : {0, 1}) {
      const std::vector<Parameter> parameters =
          ParametersOf(golden_->model(), 2, GroupRank::Of(rank));
      std::vector<std::vector<float>> values;
      std::vector<ShardTensor> tensors;
      values.reserve(parameters.size());
      for (const Parameter& p : parameters) {
        if (rank > 0 && !p.sharded()) continue;  // the first rank writes it
        values.push_back(ReadBox(*golden_, p));
        const std::string type = p.name == wrong_type_ ? "I32" : "F32";
        tensors.push_back({p.name, type, p.shape, p.starts, p.extents, values.back().data()});
        // What else a checkpoint holds does not matter.
        tensors.push_back(
            {p.name + ".adam_m", "F32", p.shape, p.starts, p.extents, values.back().data()});
      }
      const auto shard = WriteShard(job_.path(), step, {Epoch(epoch)}, Rank::Of(rank), tensors);
      EXPECT_TRUE(shard.ok()) << shard.status();
      shards.push_back(*shard);
    }
    TrainingState state;
    state.step = step;
    state.epoch = epoch;
    state.padded_vocab = 384;
    state.held_out.of = "text";
    state.held_out.loss = loss;
    state.world_size = state.tp_size = 2;
    const auto folder = Commit(job_.path(), state, shards, 0, attachments_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    Spill(*folder + "/model.json", ModelNoteText({golden_->model(), "BF16", "files"}));
    return *folder;
  }

  std::unique_ptr<ModelSource> golden_;
  std::string wrong_type_;
  std::vector<Attachment> attachments_ = {{"tokenizer.json", "{}"}, {"notes.txt", ""}};
  TestFolder job_;
};

TEST_F(CheckpointSourceTest, ParametersAreThoseThatWereSaved) {
  const std::string folder = Write(20, 1);
  Spill(folder + "/merges.txt", "of someone else");
  const auto opened = OpenModel(folder);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->name(), folder);
  EXPECT_EQ((*opened)->dtype(), "BF16");
  EXPECT_EQ((*opened)->model().rotary_scaling, golden_->model().rotary_scaling);
  EXPECT_THAT((*opened)->tokenizer_files(), testing::ElementsAre(folder + "/tokenizer.json"));
  EXPECT_EQ(ParametersIn(**opened), ParametersIn(*golden_));
  // Of a layout of its own.
  for (const Parameter& shard : ParametersOf(golden_->model(), 2, 1)) {
    EXPECT_EQ(ReadBox(**opened, shard), ReadBox(*golden_, shard));
  }
}

TEST_F(CheckpointSourceTest, TokenizerFilesAreNoneUnlessTheNoteSaysSo) {
  const std::string folder = Write(20, 1);
  Spill(folder + "/model.json", ModelNoteText({golden_->model(), "F32", "bytes"}));
  EXPECT_TRUE((*OpenModel(folder))->tokenizer_files().empty());
}

TEST_F(CheckpointSourceTest, ALargeNoteIsRefused) {
  const std::string folder = Write(20, 1);
  fs::resize_file(folder + "/model.json", (1 << 20) + 1);
  const absl::Status status = OpenModel(folder).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model.json: found 1048577 bytes, expected at most 1048576"));
}

TEST_F(CheckpointSourceTest, NewestOfAJobIsByEpochThenStep) {
  Write(30, 1);
  Write(10, 2);
  const std::string newest = Write(20, 2);
  fs::create_directories(job_ / "step-00000090.tmp-2");
  fs::create_directories(job_ / "step-00000080.bad-1");
  const auto found = CheckpointFolderOf(job_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, newest);
  EXPECT_TRUE(OpenModel(job_.path()).ok());
}

TEST_F(CheckpointSourceTest, BestOfAJobIsThatOfTheLowestLoss) {
  Write(10, 1);
  const auto missing = CheckpointFolderOf(job_ / "best");
  EXPECT_EQ(missing.status(),
            absl::NotFoundError((job_ / "best") + ": found no checkpoint with a held-out loss, "
                                                  "expected one of a job that evaluates: name a "
                                                  "checkpoint"));
  Write(20, 1, 2.5);
  const std::string best = Write(30, 1, 2.0);
  Write(40, 1, 2.0);
  EXPECT_EQ(CheckpointFolderOf(job_ / "best").value(), best);
  EXPECT_TRUE(OpenModel(job_ / "best").ok());
  Spill(best + "/manifest.json", "{}");
  EXPECT_THAT(std::string(CheckpointFolderOf(job_ / "best").status().message()),
              HasSubstr(job_.path() + ": which checkpoint is the best cannot be told: "));
}

TEST_F(CheckpointSourceTest, DamagedNewestIsAnErrorAndStays) {
  Write(10, 1);
  const std::string newest = Write(20, 1);
  std::string file = Slurp(newest + "/rank-00001.safetensors");
  file.back() = static_cast<char>(file.back() ^ 1);
  Spill(newest + "/rank-00001.safetensors", file);
  const auto opened = OpenModel(job_.path());
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()),
              AllOf(HasSubstr(newest + "/rank-00001.safetensors"), HasSubstr("crc32c")));
  EXPECT_TRUE(fs::exists(newest + "/manifest.json"));

  Spill(newest + "/manifest.json", "{");
  const auto unknown = OpenModel(job_.path());
  EXPECT_FALSE(unknown.ok());
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("which checkpoint is the newest cannot be told"),
                    HasSubstr(newest + "/manifest.json"), HasSubstr("name one")));
  EXPECT_TRUE(fs::exists(newest));
}

TEST_F(CheckpointSourceTest, JobWithoutCheckpointsAndMissingFolderAreNotFound) {
  const auto empty = OpenModel(job_.path());
  EXPECT_TRUE(absl::IsNotFound(empty.status())) << empty.status();
  EXPECT_THAT(std::string(empty.status().message()),
              HasSubstr(job_.path() + ": found no checkpoint"));
  EXPECT_TRUE(absl::IsNotFound(OpenModel(job_ / "none").status()));
}

TEST_F(CheckpointSourceTest, CheckpointThatDoesNotSayItsModelIsRefused) {
  const std::string folder = Write(20, 1);
  fs::remove(folder + "/model.json");
  const auto opened = OpenModel(folder);
  EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr(folder + "/model.json: found no such file"));
}

TEST_F(CheckpointSourceTest, NoteOfAnotherModelIsRefused) {
  const std::string folder = Write(20, 1);
  ModelSpec other = golden_->model();
  other.layers = 3;
  Spill(folder + "/model.json", ModelNoteText({other, "F32", ""}));
  const auto more = OpenModel(folder);
  EXPECT_TRUE(absl::IsInvalidArgument(more.status())) << more.status();
  EXPECT_THAT(std::string(more.status().message()),
              HasSubstr("tensor layers.2.attention.proj.weight: found none, expected F32 [64,64]"));
  other = golden_->model();
  other.ffn_hidden = 48;
  Spill(folder + "/model.json", ModelNoteText({other, "F32", ""}));
  EXPECT_THAT(
      std::string(OpenModel(folder).status().message()),
      HasSubstr("tensor layers.0.mlp.fc1.weight: found F32 [2,96,64], expected F32 [2,48,64]"));
}

TEST_F(CheckpointSourceTest, WeightsOfAnotherTypeAreRefused) {
  wrong_type_ = "layers.1.ln2.weight";
  const auto opened = OpenModel(Write(20, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("tensor layers.1.ln2.weight: found I32 [64], expected F32 [64]"));
}

}  // namespace
}  // namespace stretto
