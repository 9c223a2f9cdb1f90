// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/beneath.h"
#include "proto/base/box.h"
#include "tests/worker/checkpoint/two_ranks.h"
#include "worker/checkpoint/fence.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A link that takes the place of the job's folder, as for a trainer, which confines the root.
TEST_F(CheckpointTest, AJobFolderThatBecameALinkTakesNothing) {
  const std::string checkpoint = Save(20, 1);
  const auto shards = WriteBoth(40, 1);
  const TestFolder outside;
  Confine(folder_.path(), Links::kBeneath);
  fs::rename(job_, job_ + "-was");
  fs::create_directory_symlink("../" + fs::path(outside.path()).filename().string(), job_);
  fs::create_directory(outside / "step-00000020");
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  };
  refused(WriteRank(60, 1, 0).status());
  refused(RaiseFence(job_, {Epoch(2), kRun}));
  refused(Commit(job_, State(40, 1), shards, 0, {}).status());
  refused(Checkpoint::Open(checkpoint).status());
  Abandon(job_, 40, {Epoch(1), kRun});
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(outside.path()), {}), 1);
}

TEST_F(CheckpointTest, AnyLayoutReadsWhatTwoRanksWrote) {
  const auto checkpoint = Checkpoint::Open(Save(20, 1));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest().state, State(20, 1));
  for (const char* name : {"rows", "columns"}) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t rows = 1; row + rows <= kRows; ++rows) {
        for (int64_t column = 0; column < kColumns; ++column) {
          for (int64_t columns = 1; column + columns <= kColumns; ++columns) {
            std::vector<float> out(static_cast<size_t>(rows * columns), -1), expected;
            for (int64_t i = row; i < row + rows; ++i) {
              for (int64_t j = column; j < column + columns; ++j) {
                expected.push_back(Value(20, i * kColumns + j));
              }
            }
            ASSERT_TRUE(
                checkpoint->Read(name, "F32", {row, column}, {rows, columns}, out.data()).ok());
            ASSERT_EQ(out, expected) << name << row << rows << column << columns;
          }
        }
      }
    }
  }
  uint16_t bias[2];
  ASSERT_TRUE(checkpoint->Read("bias", "BF16", {0}, {2}, bias).ok());
  EXPECT_THAT(bias, ElementsAre(1, 2));
}

// A rank may have a range of a tensor's elements: three boxes in one file, under keys of their own.
TEST_F(CheckpointTest, AFileMayHaveSeveralBoxesOfATensor) {
  std::vector<int32_t> all(24);
  std::iota(all.begin(), all.end(), 0);
  std::vector<ShardInfo> shards;
  for (const auto& [rank, range] :
       {std::pair(0, ElementRange{0, 9}), {1, {9, 23}}, {2, {23, 24}}}) {
    std::vector<ShardTensor> tensors;
    int64_t first = range.begin;
    for (const Box& box : BoxesOf({4, 6}, range)) {
      tensors.push_back({"w",
                         "I32",
                         {4, 6},
                         box.starts,
                         box.extents,
                         all.data() + first,
                         absl::StrCat("w from ", first)});
      first += box.extents[0] * box.extents[1];
    }
    shards.push_back(*WriteShard(job_, 1, {Epoch(1), kRun}, Rank::Of(rank), tensors));
  }
  EXPECT_EQ(shards[1].tensors.at(0).shards.size(), 3u);
  const auto folder = Commit(job_, State(1, 1), shards, 0);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto checkpoint = Checkpoint::Open(*folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<int32_t> whole(24), middle(4);
  ASSERT_TRUE(checkpoint->Read("w", "I32", {0, 0}, {4, 6}, whole.data()).ok());
  EXPECT_EQ(whole, all);
  ASSERT_TRUE(checkpoint->Read("w", "I32", {1, 2}, {2, 2}, middle.data()).ok());
  EXPECT_THAT(middle, ElementsAre(8, 9, 14, 15));
}

TEST_F(CheckpointTest, ABoxThatTwoRanksWroteIsRefused) {
  const int32_t values[] = {1, 2};
  std::vector<ShardInfo> shards;
  for (Rank rank : IdRange<Rank>(2))
    shards.push_back(
        *WriteShard(job_, 1, {Epoch(1), kRun}, rank, {{"w", "I32", {2}, {0}, {2}, values}}));
  EXPECT_THAT(std::string(Commit(job_, State(1, 1), shards, 0).status().message()),
              HasSubstr("tensor w: shards: found 0 and 1 overlapping, expected disjoint boxes"));
}

TEST_F(CheckpointTest, BoxesOfThreeDimensionsAndScalarsAreCopiedWhole) {
  // Heads of a fused QKV weight: [3, 4, 2], each rank has two of the four heads.
  std::vector<ShardInfo> shards;
  const int64_t count = 9;
  for (int64_t rank : {0, 1}) {
    std::vector<int32_t> data;
    for (int64_t i = 0; i < 24; ++i) {
      if (i % 8 / 4 == rank) data.push_back(static_cast<int32_t>(i));
    }
    std::vector<ShardTensor> tensors = {
        {"qkv", "I32", {3, 4, 2}, {0, 2 * rank, 0}, {3, 2, 2}, data.data()}};
    if (rank == 0) tensors.push_back({"count", "I64", {}, {}, {}, &count});
    shards.push_back(*WriteShard(job_, 1, {Epoch(1), kRun}, Rank::Of(rank), tensors));
  }
  const auto folder = Commit(job_, State(1, 1), shards, 0);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto checkpoint = Checkpoint::Open(*folder);
  std::vector<int32_t> whole(24), expected(24), middle(12);
  ASSERT_TRUE(checkpoint->Read("qkv", "I32", {0, 0, 0}, {3, 4, 2}, whole.data()).ok());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(whole, expected);
  ASSERT_TRUE(checkpoint->Read("qkv", "I32", {0, 1, 0}, {3, 2, 2}, middle.data()).ok());
  EXPECT_THAT(middle, ElementsAre(2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21));
  int64_t read = 0;
  ASSERT_TRUE(checkpoint->Read("count", "I64", {}, {}, &read).ok());
  EXPECT_EQ(read, 9);
}

TEST_F(CheckpointTest, ReadRefusesAnotherModel) {
  const auto checkpoint = Checkpoint::Open(Save(20, 1));
  float out[64];
  EXPECT_EQ(checkpoint->Read("none", "F32", {0}, {1}, out).code(), absl::StatusCode::kNotFound);
  absl::Status status = checkpoint->Read("rows", "BF16", {0, 0}, {1, 1}, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor rows: found F32, expected BF16"));
  status = checkpoint->Read("rows", "F32", {3, 0}, {2, 6}, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tensor rows: found shape [4,6], expected one that holds starts [3,0] "
                        "extents [2,6]"));
  EXPECT_FALSE(checkpoint->Read("rows", "F32", {0}, {4}, out).ok());
  EXPECT_FALSE(checkpoint->Read("rows", "F32", {-1, 0}, {1, 1}, out).ok());
}

TEST_F(CheckpointTest, KeepsTheNewestKAndRemovesOldTemporaries) {
  ASSERT_TRUE(WriteRank(5, 1, 0).ok());  // an attempt that died
  Save(10, 2, 2);
  Save(20, 2, 2);
  Save(30, 2, 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020", "step-00000030"));
  Save(40, 3, 1);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000040"));
}

TEST_F(CheckpointTest, LaterAttemptThatWentBackIsTheNewest) {
  Save(30, 1);
  Save(20, 2, 1);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020"));
  Save(30, 3);
  Save(20, 4);  // replaces that of epoch 2 in place
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020", "step-00000030"));
  const auto found = FindNewestValid(job_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->folder, job_ + "/step-00000020");
  EXPECT_EQ(found->manifest.state.epoch, 4);
}

TEST_F(CheckpointTest, DamagedCheckpointsDoNotCountAsKept) {
  Save(10, 1);
  fs::remove(Save(20, 1) + "/rank-00001.safetensors");
  Save(30, 1, 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020", "step-00000030"));
}

TEST_F(CheckpointTest, OlderEpochIsFencedOff) {
  Save(20, 5);
  const absl::Status status = Commit(job_, State(30, 4), WriteBoth(30, 4), 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found epoch 5 in step-00000020, expected none newer than ours, 4"));
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020"));

  ASSERT_TRUE(WriteRank(25, 6, 0).ok());  // a newer attempt has begun to write
  const absl::Status late = Commit(job_, State(30, 5), WriteBoth(30, 5), 2).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020", "step-00000025.tmp-6-0123abcd"));
}

TEST_F(CheckpointTest, CommitRefusesShardsThatAreMissingOrDisagree) {
  Save(10, 1);
  std::vector<ShardInfo> shards = WriteBoth(20, 1);
  fs::remove(job_ + "/step-00000020.tmp-1-0123abcd/rank-00001.safetensors");
  absl::Status status = Commit(job_, State(20, 1), shards, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank-00001.safetensors: found no file"));

  shards = WriteBoth(20, 1);
  shards.pop_back();
  status = Commit(job_, State(20, 1), shards, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor rows: shards: found 48 bytes"));

  shards = WriteBoth(20, 1);
  shards[1].tensors[0].shape = {8, 6};
  status = Commit(job_, State(20, 1), shards, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found another dtype or shape in rank-00001.safetensors"));
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
}

TEST_F(CheckpointTest, FullDiskWhileWritingAShardLeavesTheOldOne) {
  Save(10, 1);
  const std::string data(100000, 'x');
  {
    FullDisk disk(50000);
    const absl::Status status = WriteShard(job_, 20, {Epoch(1), kRun}, Rank::Of(0),
                                           {{"big", "U8", {100000}, {0}, {100000}, data.data()}})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("step-00000020.tmp-1-0123abcd/rank-00000"));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
  EXPECT_EQ(FindNewestValid(job_)->folder, job_ + "/step-00000010");
}

TEST_F(CheckpointTest, FullDiskAtTheManifestLeavesTheOldOne) {
  Save(10, 1);
  const std::vector<ShardInfo> shards = WriteBoth(20, 1);
  {
    FullDisk disk(100);
    const absl::Status status = Commit(job_, State(20, 1), shards, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("manifest.json"));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
  EXPECT_TRUE(FindNewestValid(job_).ok());
}

TEST_F(CheckpointTest, AttachmentsLieBesideTheTensors) {
  const std::string blanks("\0 \n", 3);
  const auto folder = Commit(job_, State(20, 1), WriteBoth(20, 1), 0,
                             {{"model.json", "{}"}, {"tokenizer.model", blanks}, {"empty", ""}});
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(Slurp(*folder + "/model.json"), "{}");
  EXPECT_EQ(Slurp(*folder + "/tokenizer.model"), blanks);
  const auto checkpoint = Checkpoint::Open(*folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::map<std::string, int64_t> sizes;
  for (const FileRecord& file : checkpoint->manifest().attachments) sizes[file.name] = file.size;
  EXPECT_THAT(sizes, ElementsAre(std::pair("empty", 0), std::pair("model.json", 2),
                                 std::pair("tokenizer.model", 3)));
}

TEST_F(CheckpointTest, AttachmentsHaveNamesOfTheirOwn) {
  Save(10, 1);
  for (const std::vector<Attachment>& twice :
       {std::vector<Attachment>{{"note", "1"}, {"note", "2"}},
        std::vector<Attachment>{{"rank-00001.safetensors", "1"}}}) {
    const absl::Status status = Commit(job_, State(20, 1), WriteBoth(20, 1), 0, twice).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("twice, expected it once"));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
}

TEST_F(CheckpointTest, FullDiskAtAnAttachmentLeavesTheOldOne) {
  Save(10, 1);
  const std::vector<ShardInfo> shards = WriteBoth(20, 1);
  {
    FullDisk disk(50000);
    const absl::Status status =
        Commit(job_, State(20, 1), shards, 1, {{"tokenizer.json", std::string(60000, ' ')}})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("step-00000020.tmp-1-0123abcd/tokenizer.json"));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
}

TEST_F(CheckpointTest, AbandonRemovesTheTemporaryOnly) {
  Save(10, 1);
  ASSERT_TRUE(WriteRank(20, 1, 0).ok());
  Abandon(job_, 20, {Epoch(1), kRun});
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010"));
}

struct Damage {
  const char* name;
  void (*apply)(const std::string& folder);
  const char* message;
  bool shows_run = true;
};

class DamagedCheckpointTest : public CheckpointTest, public testing::WithParamInterface<Damage> {};

TEST_P(DamagedCheckpointTest, IsQuarantinedAndTheOneBeforeIsUsed) {
  const std::string good = Save(10, 1), bad = Save(20, 1);
  GetParam().apply(bad);
  const absl::Status status = Checkpoint::Open(bad).status();
  EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));

  // Another job passes it over and leaves it.
  auto found = FindNewestValid(job_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->folder, good);
  EXPECT_THAT(found->bad, ElementsAre(AllOf(HasSubstr(bad + ": "), HasSubstr(GetParam().message))));
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020"));

  // Its own run renames it, if it shows whose it is.
  const std::string name = "step-00000020" + std::string(GetParam().shows_run ? ".bad-1" : "");
  found = FindOwnNewestValid(job_, {Epoch(2), kRun});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->folder, good);
  EXPECT_THAT(found->bad, ElementsAre(AllOf(HasSubstr(job_ + "/" + name + ": "),
                                            HasSubstr(GetParam().message))));
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", name));

  // A new checkpoint of that step leaves it to a human in either case.
  const std::string again = Save(20, 2);
  const std::string aside = GetParam().shows_run ? name : "step-00000020.of-unknown-1";
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020", aside));
  GetParam().apply(again);
  EXPECT_EQ(FindOwnNewestValid(job_, {Epoch(3), kRun})->folder, good);
}

void Replace(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = Slurp(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  Spill(path, text.replace(at, from.size(), to));
}

const Damage kDamages[] = {
    {"FlippedByte",
     [](const std::string& folder) {
       std::string bytes = Slurp(folder + "/rank-00001.safetensors");
       bytes.back() = static_cast<char>(bytes.back() ^ 1);
       Spill(folder + "/rank-00001.safetensors", bytes);
     },
     "rank-00001.safetensors: crc32c: found"},
    {"TruncatedFile",
     [](const std::string& folder) { fs::resize_file(folder + "/rank-00000.safetensors", 100); },
     "rank-00000.safetensors: size: found 100"},
    {"MissingShard",
     [](const std::string& folder) { fs::remove(folder + "/rank-00001.safetensors"); },
     "rank-00001.safetensors"},
    {"FlippedAttachment",
     [](const std::string& folder) { Spill(folder + "/note.json", "{\"a\": 2}"); },
     "note.json: crc32c: found"},
    {"MissingAttachment", [](const std::string& folder) { fs::remove(folder + "/note.json"); },
     "note.json"},
    {"TruncatedAttachment",
     [](const std::string& folder) { fs::resize_file(folder + "/note.json", 3); },
     "note.json: size: found 3"},
    {"MissingManifest", [](const std::string& folder) { fs::remove(folder + "/manifest.json"); },
     "manifest.json", /*shows_run=*/false},
    {"TornManifest",
     [](const std::string& folder) { fs::resize_file(folder + "/manifest.json", 200); },
     "manifest.json: found 200 bytes that are not JSON"},
    {"EmptyManifest",
     [](const std::string& folder) { fs::resize_file(folder + "/manifest.json", 0); },
     "manifest.json", /*shows_run=*/false},
    {"WrongSha256",
     [](const std::string& folder) {
       const std::string path = folder + "/manifest.json";
       const size_t at = Slurp(path).find("\"sha256\": \"") + 11;
       Replace(path, Slurp(path).substr(at, 64), std::string(64, '0'));
     },
     "rank-00000.safetensors: sha256: found"},
    {"ManifestThatNamesAnotherTensor",
     [](const std::string& folder) {
       Replace(folder + "/manifest.json", "\"name\": \"rows\"", "\"name\": \"toes\"");
     },
     "rank-00000.safetensors: tensor toes: found no such tensor, expected as in the manifest F32 "
     "[2,6]"},
    {"ManifestThatLiesAboutTheDtype",
     [](const std::string& folder) {
       Replace(folder + "/manifest.json", "\"dtype\": \"F32\"", "\"dtype\": \"I32\"");
     },
     "tensor rows: found F32 [2,6] at byte"},
};

INSTANTIATE_TEST_SUITE_P(All, DamagedCheckpointTest, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(CheckpointTest, NoValidCheckpointIsNotFoundAndSaysWhy) {
  EXPECT_EQ(FindNewestValid(job_).status().code(), absl::StatusCode::kNotFound);
  FlipByte(Save(10, 1) + "/rank-00000.safetensors");
  const absl::Status status = FindNewestValid(job_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no valid one; " + job_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank-00000.safetensors: crc32c"));
}

TEST_F(CheckpointTest, ResumeComparesWhatIsExpected) {
  const TrainingState state = State(10, 1);
  EXPECT_TRUE(CheckResumable("/c", state, {}).ok());
  EXPECT_TRUE(CheckResumable("/c", state, {"spec", "math", "tok", 128, 2}).ok());
  const absl::Status status = CheckResumable("/c", state, {"other", "math", "tok", 128, 2});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "/c: spec_hash: found spec, expected other");
  EXPECT_EQ(CheckResumable("/c", state, {"spec", "other", "tok", 128, 2}).message(),
            "/c: math_hash: found math, expected other");
  EXPECT_EQ(CheckResumable("/c", state, {"spec", "math", "x", 128, 2}).message(),
            "/c: tokenizer_hash: found tok, expected x, that of the data: use data of the same "
            "tokenizer, or set data.allow_other_tokenizer");
  TrainingState unknown = state;
  unknown.tokenizer_hash.clear();
  EXPECT_THAT(std::string(CheckResumable("/c", unknown, {"spec", "math", "x", 128, 2}).message()),
              HasSubstr("/c: tokenizer_hash: found none, expected x"));
  EXPECT_EQ(CheckResumable("/c", state, {"spec", "math", "tok", 256, 2}).message(),
            "/c: padded_vocab: found 128, expected 256");
  EXPECT_EQ(CheckResumable("/c", state, {"spec", "math", "tok", 128, 4}).message(),
            "/c: tp_size: found 2, expected 4");
}

}  // namespace
}  // namespace stretto
