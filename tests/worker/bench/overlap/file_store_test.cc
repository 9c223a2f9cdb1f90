// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/file_store.h"

#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() : folder_(::testing::TempDir() + "/file-store-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~FileStoreTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(FileStoreTest, AnotherRankGetsWhatWasSet) {
  FileStore mine(folder_), theirs(folder_);
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(mine.Set("tp/0", bytes).ok());

  EXPECT_EQ(theirs.Get("tp/0", absl::ZeroDuration()).value(), bytes);
}

TEST_F(FileStoreTest, GetWaitsForTheKey) {
  FileStore store(folder_);
  std::thread setter([&] { EXPECT_TRUE(store.Set("key", "late").ok()); });

  EXPECT_EQ(store.Get("key", absl::Seconds(60)).value(), "late");
  setter.join();
}

TEST_F(FileStoreTest, MissingKeyIsNamedAfterTheTimeout) {
  FileStore store(folder_);

  const absl::Status status = store.Get("tp/3", absl::Milliseconds(1)).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("key tp/3 was not set"));
}

TEST_F(FileStoreTest, KeysAreWrittenOnceButMayBeRepeated) {
  FileStore store(folder_);
  ASSERT_TRUE(store.Set("key", "first").ok());

  EXPECT_TRUE(store.Set("key", "first").ok());
  EXPECT_EQ(store.Set("key", "second").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store.Get("key", absl::ZeroDuration()).value(), "first");
}

TEST_F(FileStoreTest, FolderThatIsNotThereIsNamed) {
  FileStore store(folder_ + "/missing");

  const absl::Status status = store.Set("key", "bytes");

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(folder_ + "/missing"));
}

}  // namespace
}  // namespace stretto::bench
