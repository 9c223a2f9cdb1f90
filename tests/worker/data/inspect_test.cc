// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/inspect.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/llmc_file.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/text/prepare.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class InspectTest : public testing::Test {
 protected:
  void SetUp() override {
    Spill(folder_ / "in.jsonl",
          "{\"text\": \"hello\"}\n{\"text\": \"a\\nb\"}\n{\"text\": \"c\"}\n");
    ASSERT_TRUE(Prepare({{folder_ / "in.jsonl"}, prefix_}, *bytes_).ok());
  }
  TestFolder folder_;
  const std::string prefix_ = folder_ / "set";
  const std::unique_ptr<Tokenizer> bytes_ = MakeByteTokenizer();
};

TEST_F(InspectTest, ReportsCountsNoteAndFirstDocuments) {
  const auto report = InspectDataset(
      {.name = prefix_, .documents = 2, .tokens = 4, .check = true, .tokenizer = bytes_.get()});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(*report, prefix_ +
                         ": 12 tokens (u16) in 3 documents of 2 to 6 tokens\n"
                         "tokenizer bytes, vocabulary 257, end of document 256, hash " +
                         bytes_->info().hash +
                         "\n"
                         "every token is in the vocabulary\n"
                         "document 0, 6 tokens: 104 101 108 108 ...\n"
                         "  \"hell\"\n"
                         "document 1, 4 tokens: 97 10 98 256\n"
                         "  \"a\\nb\"\n");
}

TEST_F(InspectTest, JsonHasTheSame) {
  const auto report =
      InspectDataset({.name = prefix_, .documents = 1, .format = OutputFormat::kJson});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto json = nlohmann::json::parse(*report);
  EXPECT_EQ(json["tokens"], 12);
  EXPECT_EQ(json["documents"], 3);
  EXPECT_EQ(json["longest_document"], 6);
  EXPECT_EQ(json["tokenizer"]["end_of_document"], 256);
  EXPECT_EQ(json["first_documents"].size(), 1u);
  EXPECT_EQ(json["first_documents"][0]["tokens"].size(), 6u);
  EXPECT_FALSE(json["first_documents"][0].contains("text"));
}

TEST_F(InspectTest, TokenFilesOfLlmcAreShownByDocument) {
  Spill(folder_ / "web_1.bin", LlmcFile({50256, 1, 2, 3, 50256, 4}));
  Spill(folder_ / "web_2.bin", LlmcFile({5, 50256}));
  const std::string name = "llmc:" + (folder_ / "web_*.bin");
  const auto report = InspectDataset({.name = name, .documents = 2, .tokens = 3, .check = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(*report, name +
                         ": 8 tokens (u16) in 3 documents of 1 to 4 tokens\n"
                         "tokenizer: no note beside it (PREFIX.tokenizer.json)\n"
                         "document 0, 4 tokens: 50256 1 2 ...\n"
                         "document 1, 3 tokens: 50256 4 5\n");
  const auto bytes = InspectDataset({.name = name, .check = true, .tokenizer = bytes_.get()});
  EXPECT_EQ(bytes.status().message(), (folder_ / "web_1.bin") +
                                          ": token 0 at byte 1024: found 50256, expected a token "
                                          "in [0, 257)");
}

TEST_F(InspectTest, OtherTokenizerThanTheNotesIsRefused) {
  const auto tokenizer = LoadBytePairTokenizer(
      STRETTO_SOURCE_DIR "/tests/golden/tokenizer/gpt2_kind.json", "<|endoftext|>");
  ASSERT_TRUE(tokenizer.ok());
  const auto report = InspectDataset({.name = prefix_, .tokenizer = tokenizer->get()});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("found tokens of tokenizer bytes with hash"));
}

TEST_F(InspectTest, TokenBeyondTheVocabularyIsNamedWithItsPlace) {
  TokenizerInfo small = bytes_->info();
  small.vocab_size = 200;
  small.end_of_document = 199;
  ASSERT_TRUE(WriteTokenizerInfo(prefix_, small).ok());
  EXPECT_TRUE(InspectDataset({.name = prefix_, .documents = 0}).ok());
  const auto report = InspectDataset({.name = prefix_, .documents = 0, .check = true});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("set.bin: token 5"));
}

TEST_F(InspectTest, DataSetWithoutNoteIsShownAndABrokenNoteRefused) {
  std::filesystem::remove(prefix_ + ".tokenizer.json");
  const auto report = InspectDataset({.name = prefix_});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(*report, HasSubstr("no note beside it"));
  Spill(prefix_ + ".tokenizer.json", "[]");
  EXPECT_EQ(InspectDataset({.name = prefix_}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto
