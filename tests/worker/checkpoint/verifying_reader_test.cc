// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/verifying_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/worker/checkpoint/two_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class VerifyingReaderTest : public CheckpointTest {};

TEST_F(VerifyingReaderTest, RanksThatShareTheChecksReadEachByteOnce) {
  const std::string folder = Save(20, 1);
  const auto checkpoint = Checkpoint::OpenHeaders(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (int ranks : {1, 2, 3, 5}) {
    int64_t read = 0, stored = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto count = [&](int64_t bytes) { read += bytes; };
      auto reader = VerifyingReader::Open(*checkpoint, rank, ranks, count);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ASSERT_TRUE(reader->Finish().ok());
      ASSERT_TRUE(checkpoint->CheckAttachments(rank, ranks).ok());
    }
    for (const char* file : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
      stored += static_cast<int64_t>(fs::file_size(folder + "/" + file));
    }
    EXPECT_EQ(read, stored) << ranks;
  }
}

// Whatever the layout of the readers, and in whatever order they read.
TEST_F(VerifyingReaderTest, WhatIsReadWhileItIsVerifiedIsWhatIsThere) {
  const std::string folder = Save(20, 1);
  const auto checkpoint = Checkpoint::OpenHeaders(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  struct Part {
    const char* name;
    std::vector<int64_t> starts, extents;
  };
  std::vector<Part> parts = {{"rows", {1, 2}, {3, 4}},    {"columns", {0, 2}, {4, 2}},
                             {"rows", {0, 0}, {1, 6}},    {"columns", {3, 0}, {1, 6}},
                             {"columns", {0, 0}, {4, 2}}, {"rows", {3, 5}, {1, 1}}};
  for (int turn = 0; turn < 2; ++turn) {
    for (int rank = 0; rank < 3; ++rank) {  // the third has no file to verify
      auto reader = VerifyingReader::Open(*checkpoint, rank, 3);
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (const Part& part : parts) {
        std::vector<float> found(static_cast<size_t>(part.extents[0] * part.extents[1]));
        std::vector<float> expected = found;
        ASSERT_TRUE(reader->Read(part.name, "F32", part.starts, part.extents, found.data()).ok());
        ASSERT_TRUE(
            checkpoint->Read(part.name, "F32", part.starts, part.extents, expected.data()).ok());
        EXPECT_EQ(found, expected) << part.name;
        EXPECT_EQ(found[0], Value(20, part.starts[0] * kColumns + part.starts[1]));
      }
      EXPECT_EQ(reader->Finish(), absl::OkStatus());
    }
    std::reverse(parts.begin(), parts.end());
  }
}

TEST_F(VerifyingReaderTest, DamageIsFoundByTheRankThatVerifiesTheFile) {
  const std::string folder = Save(20, 1);
  FlipByte(folder + "/rank-00001.safetensors");
  const auto checkpoint = Checkpoint::OpenHeaders(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<float> rows(kRows * kColumns);
  for (int rank : {0, 1}) {
    auto reader = VerifyingReader::Open(*checkpoint, rank, 2);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_TRUE(reader->Read("rows", "F32", {0, 0}, {kRows, kColumns}, rows.data()).ok());
    const absl::Status status = reader->Finish();
    EXPECT_EQ(status.code(), rank == 0 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss);
    if (rank == 1) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("step-00000020/rank-00001.safetensors: crc32c: found "));
    }
  }
}

TEST_F(VerifyingReaderTest, AFileThatGoesWhileItIsReadIsDataLoss) {
  const std::string folder = Save(20, 1);
  const auto checkpoint = Checkpoint::OpenHeaders(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto reader = VerifyingReader::Open(*checkpoint, 0, 1);
  ASSERT_TRUE(reader.ok()) << reader.status();
  fs::resize_file(folder + "/rank-00000.safetensors", 100);
  std::vector<float> rows(kRows * kColumns);
  const absl::Status cut = reader->Read("rows", "F32", {0, 0}, {kRows, kColumns}, rows.data());
  EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(cut.message()),
              HasSubstr("rank-00000.safetensors: found 100 bytes, expected at least "));
  EXPECT_THAT(std::string(reader->Finish().message()), HasSubstr("size: found 100, expected "));
  fs::remove(folder + "/rank-00001.safetensors");
  EXPECT_EQ(VerifyingReader::Open(*checkpoint, 0, 1).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace stretto
