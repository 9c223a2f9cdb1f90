// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/trainer/agreement/ranks.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

// A root for each node, under one temporary folder.
class SameFolderTest : public testing::Test {
 protected:
  ~SameFolderTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& node) const {
    return absl::StrCat(folder_, "/", node, "/job.shared");
  }

  // By rank, each on a node.
  std::vector<absl::Status> Check(const std::vector<std::string>& nodes) {
    return OnRanks(nodes.size(), [&](size_t rank, Communicator& control) {
      return CheckSameFolder(Path(nodes[rank]), "attempt 7", control);
    });
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(SameFolderTest, OneFolderPassesAndIsLeftAsItWas) {
  for (const absl::Status& status : Check({"a", "a", "a"})) EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
  EXPECT_TRUE(Check({"a"})[0].ok());
}

TEST_F(SameFolderTest, EveryRankNamesThoseThatDoNotSeeIt) {
  for (const absl::Status& status : Check({"a", "b", "a", "b"})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("checkpoint root: ranks 1, 3 do not see "));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
}

// What another attempt has left on another node does not count.
TEST_F(SameFolderTest, AMarkOfAnotherAttemptIsNotSeen) {
  std::filesystem::create_directories(absl::StrCat(folder_, "/b"));
  std::ofstream(Path("b")) << "attempt 6";
  EXPECT_THAT(std::string(Check({"a", "b"})[1].message()), HasSubstr("rank 1 does not see "));
}

// The first checkpoint reports a root that cannot be written.
TEST_F(SameFolderTest, AFolderThatCannotBeWrittenIsNotRefused) {
  std::filesystem::create_directories(folder_);
  std::ofstream(absl::StrCat(folder_, "/a")) << "a file, not a folder";
  for (const absl::Status& status : Check({"a", "a"})) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace stretto::trainer
