#include "worker/trainer/data/text/prepare.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/tiny_model.h"
#include "tests/worker/trainer/test_files.h"
#include "worker/trainer/data/indexed_dataset.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> AllTokens(const std::string& prefix, int32_t vocab_size) {
  const auto dataset = IndexedDataset::Open(prefix);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  std::vector<int32_t> tokens(static_cast<size_t>(dataset->token_count()));
  EXPECT_TRUE(dataset->Read(0, vocab_size, tokens).ok());
  return tokens;
}

TEST(PrepareTest, WalksFoldersInSortedOrderAndSkipsBinaryFiles) {
  TestFolder in, out;
  std::filesystem::create_directories(in / "b");
  Spill(in / "b/2.txt", "two");
  Spill(in / "a.txt", "A");
  Spill(in / "c.bin", std::string("x\0y", 3));
  Spill(in / "empty.txt", "");
  const auto summary =
      Prepare({{in.path(), in / "a.txt"}, out / "text", false}, *MakeByteTokenizer());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->files, 4);
  EXPECT_EQ(summary->skipped_binary, 1);
  EXPECT_EQ(summary->documents, 3);
  EXPECT_EQ(summary->tokens, 8);
  EXPECT_EQ(summary->bytes, 5);
  EXPECT_THAT(AllTokens(out / "text", 257), ElementsAre('A', 256, 't', 'w', 'o', 256, 'A', 256));
  EXPECT_EQ(IndexedDataset::Open(out / "text")->type(), TokenType::kU16);
  EXPECT_EQ(ReadTokenizerInfo(out / "text")->kind, "bytes");
}

TEST(PrepareTest, SentencePieceDocumentsEndWithTheModelsOwnEnd) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(true));
  Spill(folder / "a.txt", "ab");
  const auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(tokenizer.ok());
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "out", false}, **tokenizer).ok());
  EXPECT_THAT(AllTokens(folder / "out", 7), ElementsAre(3, 6, 2));
}

TEST(PrepareTest, OutputInsideTheInputIsNotInput) {
  TestFolder folder;
  Spill(folder / "a.txt", "hello");
  const PrepareOptions options{{folder.path()}, folder / "out", true};
  ASSERT_TRUE(Prepare(options, *MakeByteTokenizer()).ok());
  const auto again = Prepare(options, *MakeByteTokenizer());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files, 1);
  EXPECT_EQ(again->skipped_binary, 0);
}

TEST(PrepareTest, RefusesInputsThatGiveNoTokens) {
  TestFolder in, out;
  auto prepare = [&](std::vector<std::string> inputs) {
    return Prepare({std::move(inputs), out / "text", false}, *MakeByteTokenizer()).status();
  };
  absl::Status status = prepare({in.path()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no file in 1 inputs"));

  status = prepare({in / "none"});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("input " + (in / "none")));

  Spill(in / "nul", std::string(3, '\0'));
  Spill(in / "empty", "");
  status = prepare({in.path()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found no text in 2 files (1 skipped as binary)"));

  status = prepare({"/dev/null"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a regular file or a folder"));
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

TEST(PrepareTest, UnreadableFileIsNamed) {
  TestFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  Spill(folder / "secret", "x");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);  // root reads everything
  const auto summary = Prepare({{folder / "secret"}, folder / "out", false}, *MakeByteTokenizer());
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(summary.status().message()), HasSubstr(folder / "secret"));
}

TEST(PrepareTest, ExistingOutputIsKeptUnlessTold) {
  TestFolder folder;
  Spill(folder / "a.txt", "a");
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "out", false}, *MakeByteTokenizer()).ok());
  const absl::Status status =
      Prepare({{folder / "a.txt"}, folder / "out", false}, *MakeByteTokenizer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out.idx exists"));
}

TEST(PrepareTest, FullDiskLeavesNoIndex) {
  TestFolder in, out;
  Spill(in / "a.txt", std::string(10000, 'a'));
  FullDisk disk(4096);
  const absl::Status status =
      Prepare({{in.path()}, out / "text", false}, *MakeByteTokenizer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

}  // namespace
}  // namespace stretto
