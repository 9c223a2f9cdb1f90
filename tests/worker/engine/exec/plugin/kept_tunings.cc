// SPDX-License-Identifier: Apache-2.0

// Choices of algorithms between runs; no GPU is needed for that.
#include "worker/engine/exec/backend_cuda/plugin/kept_tunings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace stretto {
namespace {

using cuda::Algorithm;
using cuda::TuningKey;
using cuda::Tunings;

const TuningKey kKey = {.product = {.m = 64, .n = 8, .k = 16, .lda = 16, .ldb = 16, .ldd = 64},
                        .sms = 0};
const Algorithm kChosen = {.words = {7, 1}, .workspace_bytes = 256, .microseconds = 12.5};

class KeptTuningsTest : public ::testing::Test {
 protected:
  KeptTuningsTest() { std::filesystem::remove_all(folder_); }

  static Tunings Empty() { return {"Some GPU", 130100}; }
  std::string File() const { return folder_ + "/" + Empty().FileName(); }

  const std::string folder_ = ::testing::TempDir() + "/kept/tunings";
};

TEST_F(KeptTuningsTest, AreThereInTheNextRun) {
  KeptTunings first(Empty(), folder_);
  first.tunings().Put(kKey, kChosen);
  first.Save();
  KeptTunings second(Empty(), folder_);
  ASSERT_NE(second.tunings().Find(kKey), nullptr);
  EXPECT_EQ(*second.tunings().Find(kKey), kChosen);
}

TEST_F(KeptTuningsTest, AFileThatIsNoneIsReplacedByTheNextChoice) {
  std::filesystem::create_directories(folder_);
  std::ofstream(File()) << "damaged";
  KeptTunings kept(Empty(), folder_);
  EXPECT_EQ(kept.tunings().Find(kKey), nullptr);
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_NE(KeptTunings(Empty(), folder_).tunings().Find(kKey), nullptr);
}

TEST_F(KeptTuningsTest, AFolderThatCannotBeMadeIsNoFailure) {
  std::filesystem::create_directories(::testing::TempDir() + "/kept");
  std::ofstream(::testing::TempDir() + "/kept/file") << "no folder";
  KeptTunings kept(Empty(), ::testing::TempDir() + "/kept/file/tunings");
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_NE(kept.tunings().Find(kKey), nullptr);
}

TEST_F(KeptTuningsTest, WithoutAFolderNothingIsWritten) {
  KeptTunings kept(Empty(), "");
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_FALSE(std::filesystem::exists(File()));
}

}  // namespace
}  // namespace stretto
