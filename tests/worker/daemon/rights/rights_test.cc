// SPDX-License-Identifier: Apache-2.0

// What a process that was started with fewer rights can do, tried by rights-attempt.

#include "worker/daemon/rights/rights.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/process.h"
#include "worker/daemon/rights/denied_calls.h"
#include "worker/daemon/rights/trainer_user.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAttempt[] = STRETTO_BINARY_DIR "/rights-attempt";
constexpr uid_t kStranger = 54321;  // of no file of this machine

class RightsTest : public ::testing::Test {
 protected:
  RightsTest() {
    const absl::StatusOr<std::vector<sock_filter>> filter = FilterOfCalls();
    EXPECT_TRUE(filter.ok()) << filter.status();
    prepared_.rights.filter = *filter;
  }

  // Runs a program to its end and returns its output.
  std::string Run(std::vector<std::string> args, const std::string& binary = kAttempt) {
    const std::string path = dir_.path() + "/out";
    FileDescriptor out(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const absl::StatusOr<ProcessId> process = Spawn({.binary = binary,
                                                     .args = std::move(args),
                                                     .env = {"HOME=/root", "PATH=/usr/bin:/bin"},
                                                     .output_fd = out.get(),
                                                     .rights = &prepared_});
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return "";
    ::waitpid(process->pid, &status_, 0);
    return *ReadFile(path);
  }
  // The lines "NAME ERRNO" whose number is, or is not, that of a refusal.
  static int Count(const std::string& output, bool refused) {
    int count = 0;
    for (absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
      if (absl::EndsWith(line, absl::StrCat(" ", EPERM)) == refused) ++count;
    }
    return count;
  }
  void CrashIn(const std::string& folder) {
    Run({"-c", absl::StrCat("cd ", folder, " && exec ", kAttempt, " crash")}, "/bin/sh");
    EXPECT_TRUE(WIFSIGNALED(status_)) << status_;
  }

  TempDir dir_;
  PreparedRights prepared_;
  int status_ = 0;
};

TEST_F(RightsTest, EveryDeniedCallIsRefused) {
  const std::string found = Run({"calls"});
  EXPECT_EQ(Count(found, true), std::ssize(DeniedCalls())) << found;
  EXPECT_EQ(Count(found, false), 0) << found;
  // Without the filter the kernel looks at the useless arguments of some at least.
  prepared_.rights.filter.clear();
  EXPECT_GE(Count(Run({"calls"}), false), 8);
}

TEST_F(RightsTest, NoNamespaceIsMade) { EXPECT_EQ(Run({"namespaces"}), "1\n1\n1\n1\n1\n1\n1\n"); }

TEST_F(RightsTest, ThreadsAndProgramsStillStart) {
  EXPECT_EQ(Run({"thread"}), "thread\n");
  EXPECT_EQ(Run({"process"}), "process\n");
  EXPECT_EQ(status_, 0);
}

TEST_F(RightsTest, NewPrivilegesAndCapabilitiesAreGone) {
  const std::string found = Run({"whoami"});
  EXPECT_THAT(found, HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(found, HasSubstr("Seccomp:\t2\n"));
  EXPECT_THAT(found, HasSubstr("CapInh:\t0000000000000000\n"));
  for (const char* name : {"CapPrm:\t", "CapEff:\t"}) {
    const size_t at = found.find(name) + std::string(name).size();
    uint64_t bits = 0;
    ASSERT_TRUE(absl::SimpleHexAtoi(found.substr(at, 16), &bits)) << found;
    constexpr uint64_t kFilesAndMemory = 0x400e;  // of capability(7): DAC, FOWNER, IPC_LOCK
    EXPECT_EQ(bits & ~kFilesAndMemory, 0u) << found;
  }
}

TEST_F(RightsTest, OpenFilesAreBounded) {
  prepared_.rights.open_files = 300;
  EXPECT_EQ(Run({"files"}), "300\n");
}

TEST_F(RightsTest, ACrashLeavesNoCoreDump) {
  const std::string pattern = *ReadFile("/proc/sys/kernel/core_pattern");
  if (pattern.find_first_of("|/") != std::string::npos) {
    GTEST_SKIP() << "core dumps of this machine go to " << pattern;
  }
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &before), 0);
  rlimit most = {before.rlim_max, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &most), 0);
  const std::string folder = dir_.path() + "/crash";
  std::filesystem::create_directory(folder);
  const auto cores = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  CrashIn(folder);
  EXPECT_EQ(cores(), 0);
  EXPECT_FALSE(WCOREDUMP(status_));
  prepared_.rights.core_dumps = true;
  CrashIn(folder);
  const bool shows = cores() == 1;
  ::setrlimit(RLIMIT_CORE, &before);
  if (!shows) GTEST_SKIP() << "this machine writes no core dumps, hard limit " << before.rlim_max;
}

TEST_F(RightsTest, AStepThatFailsIsNamed) {
  prepared_.rights.filter = {sock_filter{0xffff, 0, 0, 0}};  // no instruction
  const FileDescriptor out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const absl::Status status =
      Spawn(
          {.binary = kAttempt, .args = {}, .env = {}, .output_fd = out.get(), .rights = &prepared_})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rights-attempt: filter system calls: "));
}

// ---- another user, which only root can start

class OtherUserTest : public RightsTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root starts processes of other users";
    prepared_.rights.user = *FindUser(absl::StrCat(kStranger));
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0711), 0);
  }
  uid_t OwnerOf(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_uid;
  }
  mode_t ModeOf(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
};

TEST_F(OtherUserTest, NothingOfRootIsLeft) {
  prepared_.rights.threads = 1000;
  const std::string found = Run({"whoami"});
  EXPECT_THAT(found, HasSubstr("Uid:\t54321\t54321\t54321\t54321\n"));
  EXPECT_THAT(found, HasSubstr("Gid:\t54321\t54321\t54321\t54321\n"));
  EXPECT_THAT(found, HasSubstr("Groups:\t \n"));
  EXPECT_THAT(found, HasSubstr("CapPrm:\t0000000000000000\n"));
  EXPECT_THAT(found, HasSubstr("HOME=\n"));
}

TEST_F(OtherUserTest, FilesOfTheDaemonCannotBeRead) {
  const std::string path = dir_.path() + "/key";
  ASSERT_TRUE(WritePrivateFile(path, "secret").ok());
  EXPECT_EQ(Run({"read", path}), absl::StrCat(EACCES, "\n"));
  prepared_.rights.user.reset();
  EXPECT_EQ(Run({"read", path}), "secret");
}

TEST_F(OtherUserTest, ThreadsOfTheUserAreBounded) {
  prepared_.rights.threads = 1;
  EXPECT_THAT(Run({"process"}), Not(HasSubstr("process")));
  prepared_.rights.threads = 100;
  EXPECT_EQ(Run({"process"}), "process\n");
}

TEST_F(OtherUserTest, WhatItNeedsIsAskedOfTheKernel) {
  const std::string closed = dir_.path() + "/closed", open = dir_.path() + "/open";
  std::filesystem::create_directory(closed);
  std::filesystem::create_directory(open);
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(open.c_str(), 0755), 0);
  const TrainerUser& user = *prepared_.rights.user;
  EXPECT_TRUE(CheckNeeds(user, {{"--data-root", open, R_OK | X_OK}}).ok());
  const absl::Status status = CheckNeeds(
      user, {{"--data-root", open, R_OK | X_OK}, {"--checkpoint-root", closed, W_OK | X_OK}});
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), absl::StrCat("--checkpoint-root ", closed,
                                           ": user 54321 (uid 54321) cannot write it, "
                                           "expected a path that the user of trainers can"));
  EXPECT_EQ(::geteuid(), 0u);  // only a child became the user
}

TEST_F(OtherUserTest, TheStateFolderIsSharedAsFarAsTrainersNeed) {
  const std::string state = dir_.path() + "/state";
  std::filesystem::create_directories(state + "/tuning/rank-0");
  std::filesystem::create_directories(state + "/runs/gpt-01234567/epoch-1");
  ASSERT_TRUE(WriteFileAtomic(state + "/tuning/rank-0/file", "").ok());
  ASSERT_TRUE(WritePrivateFile(state + "/lock", "1\n").ok());
  ASSERT_TRUE(ShareStateFolder(*prepared_.rights.user, state).ok());
  for (const char* name : {"", "/runs", "/data", "/lock"}) EXPECT_EQ(OwnerOf(state + name), 0u);
  for (const char* name : {"/tuning", "/tuning/rank-0/file", "/inspection", "/checkpoints"})
    EXPECT_EQ(OwnerOf(state + name), kStranger) << name;
  EXPECT_EQ(ModeOf(state + "/runs") & 02077, 02055u);
  EXPECT_EQ(ModeOf(state + "/lock"), 0600u);
  EXPECT_EQ(Run({"read", state + "/lock"}), absl::StrCat(EACCES, "\n"));
  EXPECT_EQ(Run({"read", state + "/tuning/rank-0/file"}), "");
}

TEST_F(OtherUserTest, AFolderThatWasGivenAwayIsNotGivenAwayAgain) {
  const std::string state = dir_.path() + "/state", key = dir_.path() + "/key";
  ASSERT_TRUE(WritePrivateFile(key, "secret").ok());
  std::filesystem::create_directory(state);
  ASSERT_TRUE(ShareStateFolder(*prepared_.rights.user, state).ok());
  // As a trainer could: a second name of a file that is not its own.
  ASSERT_EQ(::link(key.c_str(), (state + "/tuning/key").c_str()), 0);
  ASSERT_TRUE(ShareStateFolder(*prepared_.rights.user, state).ok());
  EXPECT_EQ(OwnerOf(key), 0u);
}

TEST(FindUserTest, ANameOrNumbers) {
  const absl::StatusOr<TrainerUser> root = FindUser("root");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->uid, 0u);
  EXPECT_EQ(root->home, "/root");
  const absl::StatusOr<TrainerUser> both = FindUser("54321:54322");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->uid, 54321u);
  EXPECT_EQ(both->gid, 54322u);
  EXPECT_EQ(FindUser("54321")->gid, 54321u);
  EXPECT_EQ(FindUser("no-such-user").status().message(),
            "found no user \"no-such-user\" on this machine");
  for (const char* text : {"54321:", "root:0", ":1", "54321:-1", "54321:4294967295"})
    EXPECT_FALSE(FindUser(text).ok()) << text;
}

}  // namespace
}  // namespace stretto::daemon
