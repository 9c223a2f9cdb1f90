// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/state_dir.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;
using stretto::v1alpha1::Assign;
using ::testing::HasSubstr;

Assign MakeAssign(const std::string& job, const std::string& uid, int64_t epoch = 1) {
  Assign assign;
  assign.set_job_id(job);
  assign.set_job_uid(uid);
  assign.set_epoch(epoch);
  for (int rank : {0, 3}) {
    assign.add_ranks()->set_rank(rank);
    assign.mutable_ranks(assign.ranks_size() - 1)->set_slot(rank + 1);
  }
  return assign;
}

class RunFolderTest : public ::testing::Test {
 protected:
  TempDir dir_;
  RunFolders folders_{dir_.path()};
};

TEST_F(RunFolderTest, WhatWasWrittenIsFoundAgain) {
  const Assign assign = MakeAssign("gpt", "0123456789abcdef", 7);
  const absl::StatusOr<RunFolder> folder = folders_.Create(assign, 3);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->path(), dir_.path() + "/runs/gpt-01234567/epoch-7/rank-3");
  const ProcessId process = *IdentifyProcess(::getpid());
  ASSERT_TRUE(folder->WriteProcess(process).ok());
  ASSERT_TRUE(folder->MarkStopping("why").ok());

  const std::vector<StoredRun> runs = folders_.Scan();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].key, (RankKey{"0123456789abcdef", 7, 3}));
  EXPECT_EQ(runs[0].slot, 4);
  EXPECT_EQ(runs[0].process, process);
  EXPECT_FALSE(runs[0].done);
  EXPECT_TRUE(runs[0].folder.Stopping());
  EXPECT_EQ(folders_.Find(runs[0].key)->path(), folder->path());
  EXPECT_EQ(folders_.Find({"0123456789abcdef", 8, 3}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RunFolderTest, JobsWhoseUidsBeginAlikeAreToldApart) {
  const Assign first = MakeAssign("gpt", "0123456789abcdef");
  const Assign second = MakeAssign("gpu", "01234567ffffffff");
  const int64_t epoch = first.epoch();
  const auto folder = folders_.Create(first, 0), other = folders_.Create(second, 0);
  ASSERT_TRUE(folder.ok() && other.ok());
  EXPECT_EQ(folders_.Find({first.job_uid(), epoch, 0})->path(), folder->path());
  EXPECT_EQ(folders_.Find({second.job_uid(), epoch, 0})->path(), other->path());
  EXPECT_FALSE(folders_.Find({"01234567aaaaaaaa", epoch, 0}).ok());
}

TEST_F(RunFolderTest, NamesThatLeaveTheFolderAreRefused) {
  const absl::Status status = folders_.Create(MakeAssign("../x", "0123456789abcdef"), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("assignment of job \"../x\""));
  EXPECT_FALSE(folders_.Create(MakeAssign("x", "../../../../x"), 0).ok());
}

TEST_F(RunFolderTest, ABrokenAssignmentIsLeftAlone) {
  const auto folder = folders_.Create(MakeAssign("gpt", "0123456789abcdef"), 0);
  ASSERT_TRUE(WriteFileAtomic(folder->path() + "/assignment", "\xff\xff").ok());
  EXPECT_TRUE(folders_.Scan().empty());
  EXPECT_TRUE(fs::exists(folder->path()));
}

TEST_F(RunFolderTest, OnlyTheNewestEndedJobsAreKept) {
  for (int i = 0; i < 5; ++i) {
    const std::string uid = "0123456" + std::to_string(i) + "89abcdef";
    const auto folder = folders_.Create(MakeAssign("job", uid), 0);
    // 1 has not been acknowledged.
    if (i != 1) {
      ASSERT_TRUE(folder->MarkDone().ok());
    }
    const fs::path job = fs::path(folder->path()).parent_path().parent_path();
    fs::last_write_time(job, fs::file_time_type() + std::chrono::hours(i));
  }
  EXPECT_EQ(folders_.Prune(1, {"0123456289abcdef"}), 2);  // 0 and 3; 2 is in use, 4 the newest
  std::vector<std::string> left;
  for (const StoredRun& run : folders_.Scan()) left.push_back(run.key.job_uid.substr(7, 1));
  EXPECT_EQ(left, (std::vector<std::string>{"1", "2", "4"}));
}

TEST_F(RunFolderTest, AFullDiskUnderTheLogShowsWhenItIsOpened) {
  const auto folder = folders_.Create(MakeAssign("gpt", "0123456789abcdef"), 0);
  fs::create_symlink("/dev/full", folder->log());
  const absl::Status status = folder->OpenLog("hello").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder->log()));
}

TEST(ProcessIdTest, ReadsBackAndRefusesGarbage) {
  const ProcessId process{12, 34, "boot"};
  EXPECT_EQ(*ParseProcessId(FormatProcessId(process)), process);
  EXPECT_THAT(std::string(ParseProcessId("12 x boot").status().message()),
              HasSubstr("expected PID START_TICKS BOOT_ID"));
}

TEST(ProcessIdTest, AReusedNumberIsAnotherProcess) {
  ProcessId self = *IdentifyProcess(::getpid());
  EXPECT_TRUE(IsAlive(self));
  ++self.start_ticks;
  EXPECT_FALSE(IsAlive(self));
  EXPECT_EQ(WatchProcess(self).status().code(), absl::StatusCode::kNotFound);
}

TEST(ProcessIdTest, MemoryIsThatOfThisProcessAndNotOfAnother) {
  ProcessId self = *IdentifyProcess(::getpid());
  const std::vector<char> block(size_t{64} << 20, 'x');
  const absl::StatusOr<int64_t> resident = ResidentBytes(self);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_GT(*resident, static_cast<int64_t>(block.size()));
  EXPECT_LT(*resident, int64_t{64} << 30);
  ++self.start_ticks;
  EXPECT_EQ(ResidentBytes(self).status().code(), absl::StatusCode::kNotFound);
}

TEST(StateDirTest, IsOwnedByOneProcess) {
  TempDir dir;
  absl::StatusOr<FileDescriptor> first = LockStateDir(dir.path() + "/state");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = LockStateDir(dir.path() + "/state").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(std::string(second.message()), "state folder " + dir.path() +
                                               "/state is in use by another stretto-worker (pid " +
                                               std::to_string(::getpid()) + ")");
  first = FileDescriptor();
  EXPECT_TRUE(LockStateDir(dir.path() + "/state").ok());
}

}  // namespace
}  // namespace stretto::daemon
