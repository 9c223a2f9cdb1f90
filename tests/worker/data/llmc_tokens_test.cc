// SPDX-License-Identifier: Apache-2.0
#include "worker/data/llmc_tokens.h"

#include <unistd.h>

#include <cstring>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/llmc_file.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::ElementsAre;

// What llm.c writes for write_datafile([50256, 464, 3290, 50256, 262], "gpt-2") and
// ([128000, 791, 128255, 128000], "llama-3"); zeros between header and tokens.
constexpr char kGpt2Header[] = "88d834010100000005000000";
constexpr char kGpt2Tokens[] = "50c4d001da0c50c40601";
constexpr char kLlama3Header[] = "a1d934010700000004000000";
constexpr char kLlama3Tokens[] = "00f4010017030000fff4010000f40100";

std::string Golden(const char* header, const char* tokens) {
  std::string file = absl::HexStringToBytes(header);
  file.resize(1024);
  return file + absl::HexStringToBytes(tokens);
}

class LlmcTokensTest : public testing::Test {
 protected:
  std::vector<int32_t> All(const LlmcTokens& tokens) {
    std::vector<int32_t> all(static_cast<size_t>(tokens.token_count()));
    EXPECT_TRUE(tokens.Read(0, 1 << 20, all).ok());
    return all;
  }
  absl::Status OpenStatus(const std::string& content) {
    Spill(path_, content);
    return LlmcTokens::Open("llmc:x", {path_}).status();
  }
  void ExpectRefused(const std::string& content, const std::string& message) {
    const absl::Status status = OpenStatus(content);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), path_ + ": " + message);
  }

  TestFolder folder_;
  const std::string path_ = folder_ / "a.bin";
};

TEST_F(LlmcTokensTest, ReadsWhatLlmcWrote) {
  EXPECT_EQ(LlmcFile({50256, 464, 3290, 50256, 262}), Golden(kGpt2Header, kGpt2Tokens));
  Spill(path_, Golden(kGpt2Header, kGpt2Tokens));
  const auto gpt2 = LlmcTokens::Open("llmc:a.bin", {path_});
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ(gpt2->type(), TokenType::kU16);
  EXPECT_THAT(All(*gpt2), ElementsAre(50256, 464, 3290, 50256, 262));
  EXPECT_EQ(gpt2->FindDocument(1, 5), 3);

  EXPECT_EQ(LlmcFile({128000, 791, 128255, 128000}, true), Golden(kLlama3Header, kLlama3Tokens));
  Spill(path_, Golden(kLlama3Header, kLlama3Tokens));
  const auto llama3 = LlmcTokens::Open("llmc:a.bin", {path_});
  ASSERT_TRUE(llama3.ok()) << llama3.status();
  EXPECT_EQ(llama3->type(), TokenType::kU32);
  EXPECT_THAT(All(*llama3), ElementsAre(128000, 791, 128255, 128000));
  EXPECT_EQ(llama3->FindDocument(1, 4), 3);
}

TEST_F(LlmcTokensTest, FilesAreOneStreamInWhichDocumentsGoOn) {
  Spill(path_, LlmcFile({50256, 1, 2}));
  Spill(folder_ / "b.bin", LlmcFile({3, 50256, 4}));
  Spill(folder_ / "c.bin", LlmcFile({5}));
  const auto tokens = LlmcTokens::Open("llmc:*", {path_, folder_ / "b.bin", folder_ / "c.bin"});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(All(*tokens), ElementsAre(50256, 1, 2, 3, 50256, 4, 5));
  std::vector<int32_t> middle(4);
  ASSERT_TRUE(tokens->Read(2, 50257, middle).ok());
  EXPECT_THAT(middle, ElementsAre(2, 3, 50256, 4));
  EXPECT_EQ(tokens->FindDocument(0, 7), 0);
  EXPECT_EQ(tokens->FindDocument(1, 7), 4);
  EXPECT_EQ(tokens->FindDocument(1, 4), 4);  // none before the end
  EXPECT_EQ(tokens->FindDocument(4, 7), 4);
  EXPECT_EQ(tokens->FindDocument(5, 7), 7);
}

TEST_F(LlmcTokensTest, AStreamThatBeginsWithinADocumentBeginsOne) {
  Spill(path_, LlmcFile({7, 8, 50256}));
  const auto tokens = LlmcTokens::Open("llmc:a.bin", {path_});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->FindDocument(0, 3), 0);
  EXPECT_EQ(tokens->FindDocument(1, 3), 2);
}

TEST_F(LlmcTokensTest, LyingHeadersAreRefused) {
  const auto with = [](size_t byte, int32_t value) {
    std::string file = Golden(kGpt2Header, kGpt2Tokens);
    std::memcpy(file.data() + byte, &value, sizeof(value));
    return file;
  };
  ExpectRefused(with(0, 20240326),
                "magic at byte 0: found 20240326, expected 20240520 or 20240801, a token file of "
                "llm.c");
  ExpectRefused(with(4, 2), "version at byte 4: found 2, expected 1");
  ExpectRefused(with(0, 20240801), "version at byte 4: found 1, expected 7");
  ExpectRefused(with(8, -1), "number of tokens at byte 8: found -1, expected at least 1");
  ExpectRefused(with(8, 0), "number of tokens at byte 8: found 0, expected at least 1");
  ExpectRefused(with(8, 4),
                "number of tokens at byte 8: found 4 in a file of 1034 bytes, expected a file of "
                "1032 bytes");
  ExpectRefused(with(8, 2147483647),
                "number of tokens at byte 8: found 2147483647 in a file of 1034 bytes, expected a "
                "file of 4294968318 bytes");
}

TEST_F(LlmcTokensTest, EveryTruncationIsRefused) {
  const std::string file = Golden(kGpt2Header, kGpt2Tokens);
  ExpectRefused(file.substr(0, 1023),
                "header at byte 0: found a file of 1023 bytes, expected at least 1024");
  for (const size_t size : {size_t{0}, size_t{11}, size_t{1024}, file.size() - 1}) {
    EXPECT_EQ(OpenStatus(file.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_EQ(OpenStatus(file + "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LlmcTokens::Open("llmc:x", {folder_ / "none"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(LlmcTokensTest, FilesOfTwoVersionsAreNoStream) {
  Spill(path_, LlmcFile({1}));
  Spill(folder_ / "b.bin", LlmcFile({1}, true));
  const absl::Status status = LlmcTokens::Open("llmc:*", {path_, folder_ / "b.bin"}).status();
  EXPECT_EQ(status.message(),
            (folder_ / "b.bin") + ": version at byte 4: found 7, expected 1 as in " + path_);
}

TEST_F(LlmcTokensTest, TokenBeyondTheVocabularyNamesFileAndByte) {
  Spill(path_, LlmcFile({1, 2}, true));
  Spill(folder_ / "b.bin", LlmcFile({3, 4294967295}, true));
  const auto tokens = LlmcTokens::Open("llmc:*", {path_, folder_ / "b.bin"});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> some(3);
  EXPECT_EQ(tokens->Read(0, 3, some).message(),
            (folder_ / "b.bin") + ": token 0 at byte 1024: found 3, expected a token in [0, 3)");
  const absl::Status status = tokens->CheckTokens(4, 100);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      (folder_ / "b.bin") + ": token 1 at byte 1028: found 4294967295, expected a token in [0, 4)");
  EXPECT_TRUE(tokens->CheckTokens(4, 3).ok());
}

TEST_F(LlmcTokensTest, ReadBeyondTheStreamIsOutOfRange) {
  Spill(path_, LlmcFile({1, 2, 3}));
  const auto tokens = LlmcTokens::Open("llmc:a.bin", {path_});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> some(2);
  EXPECT_EQ(tokens->Read(2, 10, some).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(tokens->Read(-1, 10, some).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(tokens->Read(INT64_MAX, 10, some).code(), absl::StatusCode::kOutOfRange);
}

// The tokens of a file of 5 GiB, most of it a hole: byte offsets pass 2^32.
TEST_F(LlmcTokensTest, OffsetsHave64Bits) {
  constexpr int32_t kCount = 1'300'000'000;
  std::string header = LlmcFile({}, true);
  std::memcpy(header.data() + 8, &kCount, sizeof(kCount));
  Spill(path_, header);
  constexpr int64_t kSize = 1024 + int64_t{4} * kCount;
  if (::truncate(path_.c_str(), kSize) != 0) GTEST_SKIP() << "no sparse file of 5 GiB here";
  {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    const int32_t token = 42;
    file.seekp(kSize - 4).write(reinterpret_cast<const char*>(&token), 4);
  }
  const auto tokens = LlmcTokens::Open("llmc:a.bin", {path_});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> last(1);
  ASSERT_TRUE(tokens->Read(kCount - 1, 128256, last).ok());
  EXPECT_THAT(last, ElementsAre(42));
  EXPECT_EQ(tokens->Read(kCount - 1, 42, last).message(),
            path_ + ": token 1299999999 at byte 5200001020: found 42, expected a token in [0, 42)");
}

TEST_F(LlmcTokensTest, MutatedFilesGiveAStatusAndNeverCrash) {
  std::mt19937_64 random(1);
  int opened = 0;
  for (int i = 0; i < 600; ++i) {
    Spill(path_, Mutate(Golden(kGpt2Header, kGpt2Tokens), &random));
    const auto tokens = LlmcTokens::Open("llmc:a.bin", {path_});
    if (!tokens.ok()) continue;
    ++opened;
    (void)tokens->CheckTokens(50257, tokens->token_count());
    EXPECT_LE(tokens->FindDocument(1, tokens->token_count()), tokens->token_count());
  }
  EXPECT_GT(opened, 30);  // what lies between header and tokens is not read
  EXPECT_LT(opened, 570);
}

}  // namespace
}  // namespace stretto
