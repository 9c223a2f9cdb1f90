// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/checked_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/test_files.h"

namespace stretto {
namespace {

// Of several blocks and a part of one.
class CheckedFileTest : public testing::Test {
 protected:
  CheckedFileTest() : content_(3 * kChecksumBlockBytes + 1234, '\0') {
    std::mt19937 random(7);
    for (char& c : content_) c = static_cast<char>(random());
    Spill(path_, content_);
  }

  // Reads these ranges of begin and end, and returns the number of bytes read from the file in its
  // order.
  int64_t ReadAll(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    int64_t bytes = 0;
    auto file = CheckedFile::Open(path_, [&](int64_t n) { bytes += n; });
    EXPECT_TRUE(file.ok()) << file.status();
    for (const auto& [begin, end] : ranges) {
      std::string found(static_cast<size_t>(end - begin), 'x');
      EXPECT_TRUE(file->Read(begin, end - begin, found.data()).ok());
      EXPECT_TRUE(content_.compare(begin, end - begin, found) == 0) << begin << " to " << end;
    }
    const auto record = file->Finish();
    EXPECT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record.ok() && *record == *ChecksumFile(path_));
    return bytes;
  }

  TestFolder folder_;
  std::string path_ = folder_ / "rank-00000.safetensors";
  std::string content_;
};

TEST_F(CheckedFileTest, RangesInAnyOrderAreRight) {
  const auto size = static_cast<int64_t>(content_.size());
  const int64_t block = kChecksumBlockBytes;
  EXPECT_EQ(ReadAll({}), size);
  EXPECT_EQ(ReadAll({{0, size}}), size);
  EXPECT_EQ(ReadAll({{0, 8}, {8, block}, {block, block + 1}, {2 * block - 5, 3 * block + 5}}),
            size);
  // What is behind is read again beside the file's order, which does not change the checksums.
  EXPECT_EQ(ReadAll({{3 * block, size}, {0, size}, {block - 1, 2 * block + 1}, {0, 0}}), size);
  EXPECT_EQ(ReadAll({{size, size}, {0, 1}}), size);
}

TEST_F(CheckedFileTest, RandomRangesAreRight) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int64_t> at(0, static_cast<int64_t>(content_.size()));
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (int i = 0; i < 8; ++i) ranges.push_back(std::minmax(at(random), at(random)));
    if (turn % 2 == 0) std::sort(ranges.begin(), ranges.end());
    EXPECT_EQ(ReadAll(ranges), static_cast<int64_t>(content_.size()));
  }
}

TEST_F(CheckedFileTest, AnyFlippedBitIsFoundWhereverReadingWas) {
  const FileRecord expected = *ChecksumFile(path_);
  for (size_t at : {size_t{0}, kChecksumBlockBytes, content_.size() - 1}) {
    std::string damaged = content_;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    Spill(path_, damaged);
    auto file = CheckedFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    std::string out(content_.size(), '\0');
    ASSERT_TRUE(file->Read(0, static_cast<int64_t>(out.size()), out.data()).ok());
    const absl::Status status = file->FinishAs(expected);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(path_ + ": crc32c: found "));
  }
}

TEST_F(CheckedFileTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_EQ(CheckedFile::Open(path_ + "x").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stretto
