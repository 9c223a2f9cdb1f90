// SPDX-License-Identifier: Apache-2.0
#include "worker/data/open_tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/beneath.h"
#include "tests/worker/data/llmc_file.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/llmc_tokens.h"

namespace stretto {
namespace {

using testing::ElementsAre;

class OpenTokensTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "root/web");
    Spill(folder_ / "root/web/train_2.bin", LlmcFile({2}));
    Spill(folder_ / "root/web/train_10.bin", LlmcFile({10}));
    Spill(folder_ / "root/web/train_1.bin", LlmcFile({1}));
    Spill(folder_ / "root/web/val_1.bin", LlmcFile({9}));
  }
  std::vector<int32_t> Tokens(const std::string& name) {
    const auto stream = OpenTokens(name, folder_ / "root");
    EXPECT_TRUE(stream.ok()) << stream.status();
    std::vector<int32_t> tokens(static_cast<size_t>((*stream)->token_count()));
    EXPECT_TRUE((*stream)->Read(0, 100, tokens).ok());
    return tokens;
  }
  absl::Status Status(const std::string& name) {
    return OpenTokens(name, folder_ / "root").status();
  }
  TestFolder folder_;
};

TEST_F(OpenTokensTest, AStarStandsForAnyTextAndFilesComeSortedByName) {
  EXPECT_THAT(Tokens("llmc:web/train_*.bin"), ElementsAre(1, 10, 2));
  EXPECT_THAT(Tokens("llmc:web/*_1.bin"), ElementsAre(1, 9));
  EXPECT_THAT(Tokens("llmc:web/train_2.bin"), ElementsAre(2));
  EXPECT_EQ((*OpenTokens("llmc:web/train_*.bin", folder_ / "root"))->name(),
            "llmc:" + (folder_ / "root/web/train_*.bin"));
}

TEST_F(OpenTokensTest, NothingButTheStarIsSpecial) {
  Spill(folder_ / "root/web/a[1]?.bin", LlmcFile({5}));
  Spill(folder_ / "root/web/a1x.bin", LlmcFile({6}));
  EXPECT_THAT(Tokens("llmc:web/a[1]?*"), ElementsAre(5));
  EXPECT_THAT(Tokens("llmc:web/a1*"), ElementsAre(6));
}

TEST_F(OpenTokensTest, APrefixIsADataSet) {
  auto writer = IndexedDatasetWriter::Create(folder_ / "root/text", TokenType::kU16, false);
  ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{7, 8}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(Tokens("text"), ElementsAre(7, 8));
  EXPECT_TRUE(OpenTokens(folder_ / "root/text").ok());  // as the user of a shell names it
}

TEST_F(OpenTokensTest, WhatIsNotThereIsNamed) {
  absl::Status status = Status("llmc:web/test_*.bin");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "llmc:web/test_*.bin: found no file of that name, expected at least one");
  EXPECT_EQ(Status("llmc:none/*").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Status("llmc:none").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Status("none").code(), absl::StatusCode::kNotFound);
}

// A link that takes the place of a file after its name was checked, as of a confined process.
TEST_F(OpenTokensTest, AFileThatWasSwappedIsNotRead) {
  Spill(folder_ / "secret.bin", LlmcFile({3}));
  const auto path = DataPath("llmc:web/train_2.bin", folder_ / "root");
  ASSERT_TRUE(path.ok()) << path.status();
  std::filesystem::remove(*path);
  std::filesystem::create_symlink("../../secret.bin", *path);
  ASSERT_TRUE(LlmcTokens::Open("swapped", {*path}).ok());  // as every other process
  Confine(folder_ / "root", Links::kBeneath);
  const absl::Status status = LlmcTokens::Open("swapped", {*path}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
}

TEST_F(OpenTokensTest, NoFileOutsideTheRootIsRead) {
  Spill(folder_ / "secret.bin", LlmcFile({3}));
  Spill(folder_ / "secret.idx", "");
  const auto refused = [&](const std::string& name) {
    const absl::Status status = Status(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name << ": " << status;
  };
  refused("llmc:../secret.bin");
  refused("llmc:../*.bin");
  refused("../secret");
  std::filesystem::create_symlink(folder_ / "secret.bin", folder_ / "root/web/train_3.bin");
  refused("llmc:web/train_*.bin");
  refused("llmc:web/train_3.bin");
  std::filesystem::create_symlink(folder_ / "secret.bin", folder_ / "root/link.bin");
  std::filesystem::create_symlink(folder_ / "secret.idx", folder_ / "root/link.idx");
  refused("link");
}

}  // namespace
}  // namespace stretto
