// SPDX-License-Identifier: Apache-2.0

// What holds of a file that is written whole, readable for all or private.

#include "proto/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using Writer = absl::Status (*)(const std::string& path, absl::string_view content);

class WholeFileTest : public ::testing::TestWithParam<Writer> {
 protected:
  WholeFileTest() { fs::create_directory(folder_); }
  ~WholeFileTest() override { fs::remove_all(folder_); }

  static absl::Status Write(const std::string& path, absl::string_view content) {
    return GetParam()(path, content);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  const std::string folder_ = ::testing::TempDir() + "/whole";
  const std::string path_ = folder_ + "/file";
};

INSTANTIATE_TEST_SUITE_P(Both, WholeFileTest,
                         ::testing::Values(&WriteFileAtomic, &WritePrivateFile),
                         [](const auto& info) { return info.index == 0 ? "Atomic" : "Private"; });

TEST_P(WholeFileTest, ReplacesTheOldContent) {
  ASSERT_TRUE(Write(path_, "old, and longer").ok());
  ASSERT_TRUE(Write(path_, "new").ok());
  EXPECT_EQ(*ReadFile(path_), "new");
  EXPECT_THAT(Names(), ElementsAre("file"));
}

// Threads of a process share its number, and processes in two containers may have the same one.
TEST_P(WholeFileTest, WritersOfOneFileDoNotDisturbEachOther) {
  constexpr int kWriters = 4, kTimes = 50;
  std::vector<absl::Status> failed(kWriters);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      const std::string content(1000, static_cast<char>('a' + writer));
      for (int i = 0; i < kTimes; ++i) failed[writer].Update(Write(path_, content));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(failed, Each(absl::OkStatus()));
  const std::string content = *ReadFile(path_);
  EXPECT_EQ(content, std::string(1000, content[0]));
  EXPECT_THAT(content[0], AnyOf('a', 'b', 'c', 'd'));
  EXPECT_THAT(Names(), ElementsAre("file"));
}

TEST_P(WholeFileTest, WhatOthersHaveBesideItStays) {
  const std::string folder = absl::StrCat("file.tmp-", ::getpid());
  fs::create_directory(folder_ + "/" + folder);
  std::ofstream(folder_ + "/" + folder + "/theirs") << "kept";
  std::ofstream(folder_ + "/file.tmp") << "kept too";
  ASSERT_TRUE(Write(path_, "text").ok());
  EXPECT_EQ(*ReadFile(folder_ + "/" + folder + "/theirs"), "kept");
  EXPECT_EQ(*ReadFile(folder_ + "/file.tmp"), "kept too");
  EXPECT_THAT(Names(), UnorderedElementsAre("file", "file.tmp", folder));
}

TEST_P(WholeFileTest, WithoutItsFolderTheFileIsNamed) {
  EXPECT_EQ(Write(folder_ + "/none/file", "text").ToString(),
            absl::StrCat("NOT_FOUND: open ", folder_, "/none/file: No such file or directory"));
}

TEST_P(WholeFileTest, AFolderOfItsNameIsNamedAndStays) {
  fs::create_directory(path_);
  std::ofstream(path_ + "/theirs") << "kept";
  EXPECT_THAT(Write(path_, "text").ToString(), HasSubstr(path_ + ": Is a directory"));
  EXPECT_EQ(*ReadFile(path_ + "/theirs"), "kept");
  EXPECT_THAT(Names(), ElementsAre("file"));
}

// A limit on the size of files is what a full disk is to a writer.
TEST_P(WholeFileTest, AFullDiskLeavesTheOldContent) {
  ASSERT_TRUE(Write(path_, "old").ok());
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{100, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const absl::Status status = Write(path_, std::string(101, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.ToString(),
            absl::StrCat("RESOURCE_EXHAUSTED: write ", path_, ": File too large"));
  EXPECT_EQ(*ReadFile(path_), "old");
  EXPECT_THAT(Names(), ElementsAre("file"));
}

TEST(PrivateFileTest, OnlyItsOwnerEverReadsIt) {
  const std::string path = ::testing::TempDir() + "/mode";
  const auto mode = [&] {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  const mode_t before = ::umask(0);
  ASSERT_TRUE(WriteFileAtomic(path, "open").ok());
  EXPECT_EQ(mode(), 0644u);
  ASSERT_TRUE(WritePrivateFile(path, "closed").ok());
  EXPECT_EQ(mode(), 0600u);
  ::umask(before);
}

}  // namespace
}  // namespace stretto
