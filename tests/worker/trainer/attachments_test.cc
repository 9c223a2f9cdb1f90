// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/attachments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/worker/test_files.h"
#include "tests/worker/trainer/fake_source.h"
#include "worker/data/tokenizer_info.h"
#include "worker/exchange/model_note.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class AttachmentsTest : public testing::Test {
 protected:
  // By name, without the note, which goes to note_.
  std::map<std::string, std::string> Files(const Origin& origin) {
    const auto attachments = AttachmentsOf(model_, origin, prefix_);
    EXPECT_TRUE(attachments.ok()) << attachments.status();
    std::map<std::string, std::string> files;
    if (!attachments.ok()) return files;
    for (const Attachment& file : *attachments) files[file.name] = file.content;
    const auto note = ParseModelNote(files[kModelNoteName], "note");
    EXPECT_TRUE(note.ok()) << note.status();
    if (note.ok()) note_ = *note;
    files.erase(kModelNoteName);
    return files;
  }

  // In PREFIX.tokenizer/.
  void AddToData(const std::string& name, const std::string& content) {
    fs::create_directories(prefix_ + ".tokenizer");
    Spill(prefix_ + ".tokenizer/" + name, content);
  }

  TestFolder folder_;
  std::string prefix_ = folder_ / "text";
  ModelSpec model_ = {.layers = 2,
                      .hidden = 16,
                      .heads = 2,
                      .ffn_hidden = 32,
                      .sequence_length = 8,
                      .vocab_size = 100,
                      .dropout = 0.1};
  ModelNote note_;
};

TEST_F(AttachmentsTest, TheNoteSaysTheModel) {
  EXPECT_THAT(Files({}), IsEmpty());
  EXPECT_EQ(note_.model.layers, 2);
  EXPECT_EQ(note_.model.vocab_size, 100);
  EXPECT_EQ(note_.model.dropout, 0);
  EXPECT_EQ(note_.dtype, "F32");
  EXPECT_EQ(note_.tokenizer, "");
}

TEST_F(AttachmentsTest, TheDataSetsTokenizerComesFirst) {
  AddToData("tokenizer.json", "of the data");
  AddToData("merges.txt", "a b");
  AddToData("secret.txt", "none of a tokenizer's files");
  Spill(folder_ / "tokenizer.model", "of the weights");
  EXPECT_THAT(Files({.dtype = "BF16",
                     .tokenizer = "files",
                     .tokenizer_files = {folder_ / "tokenizer.model"}}),
              ElementsAre(Pair("merges.txt", "a b"), Pair("tokenizer.json", "of the data")));
  EXPECT_EQ(note_.dtype, "BF16");
  EXPECT_EQ(note_.tokenizer, "files");
}

TEST_F(AttachmentsTest, ThenTheOneThatCameWithTheWeights) {
  Spill(folder_ / "tokenizer.model", "of the weights");
  FakeSource source("hf:x", model_);
  source.files = {folder_ / "tokenizer.model"};
  EXPECT_THAT(Files(OriginOf(source)), ElementsAre(Pair("tokenizer.model", "of the weights")));
  EXPECT_EQ(note_.dtype, "BF16");
  EXPECT_EQ(note_.tokenizer, "files");
  source.files.clear();
  EXPECT_THAT(Files(OriginOf(source)), IsEmpty());
  EXPECT_EQ(note_.tokenizer, "");
}

TEST_F(AttachmentsTest, BytesNeedNoFiles) {
  Spill(folder_ / "tokenizer.model", "of the weights");
  ASSERT_TRUE(WriteTokenizerInfo(prefix_, {"bytes", 257, 256, "hash"}).ok());
  EXPECT_THAT(
      Files(
          {.dtype = "F32", .tokenizer = "files", .tokenizer_files = {folder_ / "tokenizer.model"}}),
      IsEmpty());
  EXPECT_EQ(note_.tokenizer, "bytes");
}

TEST_F(AttachmentsTest, ADataSetOfAnotherKindLeavesTheWeightsTokenizer) {
  Spill(folder_ / "tokenizer.model", "of the weights");
  ASSERT_TRUE(WriteTokenizerInfo(prefix_, {"sentencepiece", 100, 2, "hash"}).ok());
  EXPECT_THAT(
      Files(
          {.dtype = "F32", .tokenizer = "files", .tokenizer_files = {folder_ / "tokenizer.model"}}),
      ElementsAre(Pair("tokenizer.model", "of the weights")));
}

TEST_F(AttachmentsTest, RefusesAFileThatIsNoTokenizers) {
  AddToData("tokenizer.json", "");
  fs::resize_file(prefix_ + ".tokenizer/tokenizer.json", (64 << 20) + 1);
  const absl::Status status = AttachmentsOf(model_, {}, prefix_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("text.tokenizer/tokenizer.json: found 67108865 bytes, expected at most "
                        "67108864"));
  Spill(prefix_ + ".tokenizer.json", "{");
  EXPECT_EQ(AttachmentsOf(model_, {}, prefix_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AttachmentsTest, LinksLeadNowhereOutside) {
  const std::string root = folder_ / "root";
  fs::create_directories(root + "/model");
  fs::create_directories(root + "/blobs");
  Spill(folder_ / "secret", "outside");
  Spill(root + "/blobs/1", "inside");
  const std::string file = root + "/model/tokenizer.json";
  Origin origin{.tokenizer = "files", .tokenizer_files = {file}, .root = root};
  fs::create_symlink("../blobs/1", file);
  EXPECT_THAT(Files(origin), ElementsAre(Pair("tokenizer.json", "inside")));
  origin.root.clear();  // its own folder
  EXPECT_TRUE(absl::IsPermissionDenied(AttachmentsOf(model_, origin, prefix_).status()));
  origin.root = root;
  fs::remove(file);
  fs::create_symlink(folder_ / "secret", file);
  const absl::Status status = AttachmentsOf(model_, origin, prefix_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("model/tokenizer.json"));

  // The data set's, by a link to a whole folder.
  fs::create_directory_symlink(folder_ / "outside", root + "/text.tokenizer");
  fs::create_directories(folder_ / "outside");
  Spill(folder_ / "outside/tokenizer.json", "outside");
  EXPECT_TRUE(absl::IsPermissionDenied(AttachmentsOf(model_, {}, root + "/text", root).status()));
}

TEST_F(AttachmentsTest, DataOfNoKnownTokenizerHasNone) {
  prefix_.clear();
  EXPECT_THAT(Files({.dtype = "F32", .tokenizer = "bytes", .tokenizer_files = {}}), IsEmpty());
  EXPECT_EQ(note_.tokenizer, "bytes");
}

TEST_F(AttachmentsTest, NamesAFileThatHasGone) {
  const absl::Status status =
      AttachmentsOf(model_, {"F32", "files", {folder_ / "tokenizer.model"}}, prefix_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.model"));
}

}  // namespace
}  // namespace stretto::trainer
