// SPDX-License-Identifier: Apache-2.0

// Choices of algorithms between runs; no GPU is needed for that.
#include "worker/engine/exec/backend_cuda/kept_tunings/kept_tunings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

namespace stretto {
namespace {

namespace fs = std::filesystem;
using cuda::Algorithm;
using cuda::TuningKey;
using cuda::Tunings;
using ::testing::HasSubstr;

const TuningKey kKey = {.product = {.m = 64, .n = 8, .k = 16, .lda = 16, .ldb = 16, .ldd = 64},
                        .sms = 0};
const TuningKey kOther = {.product = {.m = 32, .n = 8, .k = 16, .lda = 16, .ldb = 16, .ldd = 32},
                          .sms = 0};
const Algorithm kChosen = {.words = {7, 1}, .workspace_bytes = 256, .microseconds = 12.5};

class KeptTuningsTest : public ::testing::Test {
 protected:
  KeptTuningsTest() : before_(spdlog::default_logger()) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~KeptTuningsTest() override { spdlog::set_default_logger(before_); }

  static Tunings Empty() { return {"Some GPU", 130100}; }
  std::string File() const { return folder_ + "/" + Empty().FileName(); }
  static std::string Content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Stores `key` as another process does.
  static void Store(const std::string& folder, const TuningKey& key) {
    KeptTunings kept(Empty(), folder, "");
    kept.tunings().Put(key, kChosen);
    kept.Save();
  }

  const std::string root_ = ::testing::TempDir() + "/kept";
  const std::string folder_ = root_ + "/tunings";
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(KeptTuningsTest, AreThereInTheNextRun) {
  Store(folder_, kKey);
  KeptTunings second(Empty(), folder_, "");
  ASSERT_NE(second.tunings().Find(kKey), nullptr);
  EXPECT_EQ(*second.tunings().Find(kKey), kChosen);
  EXPECT_EQ(log_.str(), "");
}

TEST_F(KeptTuningsTest, SavingKeepsWhatAnotherProcessStored) {
  KeptTunings kept(Empty(), folder_, "");
  kept.tunings().Put(kOther, kChosen);
  Store(folder_, kKey);
  kept.Save();
  KeptTunings both(Empty(), folder_, "");
  EXPECT_NE(both.tunings().Find(kKey), nullptr);
  EXPECT_NE(both.tunings().Find(kOther), nullptr);
}

TEST_F(KeptTuningsTest, OtherGpusHaveFilesOfTheirOwn) {
  Store(folder_, kKey);
  KeptTunings other({"Other GPU", 130100}, folder_, "");
  EXPECT_EQ(other.tunings().Find(kKey), nullptr);
  EXPECT_EQ(log_.str(), "");
}

TEST_F(KeptTuningsTest, AFileThatIsNoneIsNamedAndReplacedByTheNextChoice) {
  fs::create_directories(folder_);
  std::ofstream(File()) << "damaged";
  KeptTunings kept(Empty(), folder_, "");
  EXPECT_EQ(kept.tunings().Find(kKey), nullptr);
  EXPECT_THAT(log_.str(), HasSubstr("algorithms are measured again: INVALID_ARGUMENT: " + File() +
                                    ": line 1: found 'damaged'"));
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_NE(KeptTunings(Empty(), folder_, "").tunings().Find(kKey), nullptr);
}

TEST_F(KeptTuningsTest, AFolderThatCannotBeMadeIsLoggedOnceAndNoFailure) {
  std::ofstream(root_ + "/file") << "no folder";
  KeptTunings kept(Empty(), root_ + "/file/tunings", "");
  log_.str("");
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_THAT(log_.str(), HasSubstr("measured algorithms are not kept: "));
  EXPECT_THAT(log_.str(), HasSubstr(root_ + "/file/tunings"));
  log_.str("");
  kept.Save();
  EXPECT_EQ(log_.str(), "");
  EXPECT_NE(kept.tunings().Find(kKey), nullptr);
}

TEST_F(KeptTuningsTest, WithoutAFolderNothingIsWritten) {
  KeptTunings kept(Empty(), "", "");
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_FALSE(fs::exists(File()));
}

// The user of trainers owns the folders of all ranks, so any job's trainer may put a link there.
TEST_F(KeptTuningsTest, ALinkUnderARootIsNeitherReadNorWrittenThrough) {
  Store(root_ + "/elsewhere", kKey);
  const std::string theirs = root_ + "/elsewhere/" + Empty().FileName();
  const std::string before = Content(theirs);
  const std::string root = root_ + "/root";
  const std::string own = root + "/rank-0/" + Empty().FileName();
  fs::create_directories(root + "/rank-0");
  fs::create_symlink("../../elsewhere/" + Empty().FileName(), own);
  EXPECT_NE(KeptTunings(Empty(), root + "/rank-0", "").tunings().Find(kKey), nullptr)
      << "whoever names a folder by a flag may have links in it";
  KeptTunings kept(Empty(), root + "/rank-0", root);
  EXPECT_EQ(kept.tunings().Find(kKey), nullptr);
  EXPECT_THAT(log_.str(), HasSubstr("algorithms are measured again: PERMISSION_DENIED: open " +
                                    own + ": found a symbolic link, expected none"));
  kept.tunings().Put(kOther, kChosen);
  kept.Save();
  EXPECT_EQ(Content(theirs), before);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(own)));
  EXPECT_NE(KeptTunings(Empty(), root + "/rank-0", root).tunings().Find(kOther), nullptr);
}

TEST_F(KeptTuningsTest, AFolderUnderARootThatIsALinkGetsNothing) {
  fs::create_directories(root_ + "/elsewhere");
  const std::string root = root_ + "/linked";
  fs::create_directories(root);
  fs::create_symlink("../elsewhere", root + "/rank-0");
  KeptTunings kept(Empty(), root + "/rank-0", root);
  kept.tunings().Put(kKey, kChosen);
  kept.Save();
  EXPECT_THAT(log_.str(), HasSubstr("measured algorithms are not kept: PERMISSION_DENIED: "));
  EXPECT_TRUE(fs::is_empty(root_ + "/elsewhere"));
}

}  // namespace
}  // namespace stretto
