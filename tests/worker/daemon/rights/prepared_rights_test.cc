// SPDX-License-Identifier: Apache-2.0

// What the flags of a daemon make of the rights of its trainers.

#include "worker/daemon/rights/prepared_rights.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/process.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PrepareRightsTest : public ::testing::Test {
 protected:
  PrepareRightsTest() {
    const std::string state = dir_.path() + "/state";
    fs::create_directories(state);
    folders_ = {state, state + "/data", state + "/checkpoints", "/bin/true"};
  }
  std::string Fault() {
    const absl::StatusOr<PreparedRights> prepared = PrepareRights(options_, folders_, 4);
    return prepared.ok() ? "" : std::string(prepared.status().message());
  }
  TempDir dir_;
  TrainerFolders folders_;
  RightsOptions options_;
};

TEST_F(PrepareRightsTest, TheDefaultsHoldOnEveryMachine) {
  const absl::StatusOr<PreparedRights> prepared = PrepareRights(options_, folders_, 4);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_FALSE(prepared->rights.core_dumps);
  EXPECT_EQ(prepared->rights.open_files, 65'536);
  EXPECT_FALSE(prepared->rights.filter.empty());
  // Threads are those of a user, which has other programs unless it is the trainers' own.
  EXPECT_EQ(prepared->rights.threads, prepared->rights.user.has_value() ? 4 * 4096 : 0);
}

TEST_F(PrepareRightsTest, WhatIsAskedForByNameMustBePossible) {
  options_.user = "no-such-user";
  EXPECT_EQ(Fault(), "--trainer-user: found no user \"no-such-user\" on this machine");
  options_.user = absl::StrCat(::geteuid());
  options_.groups = dir_.path();
  EXPECT_THAT(Fault(), HasSubstr("--trainer-groups: control group "));
  options_.groups = "none";
  EXPECT_EQ(Fault(), "");
}

TEST_F(PrepareRightsTest, AnotherUserTakesRoot) {
  options_.user = "54321";
  if (::geteuid() != 0) {
    EXPECT_THAT(Fault(), HasSubstr("expected this daemon's, because it does not run as root"));
    return;
  }
  // The folder of the state folder is of mode 0700.
  EXPECT_THAT(Fault(), HasSubstr(absl::StrCat("--trainer-user: --state-dir ", dir_.path(),
                                              ": user 54321 (uid 54321) cannot enter it")));
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0711), 0);
  EXPECT_EQ(Fault(), "");
  folders_.checkpoint_root = dir_.path() + "/checkpoints";
  fs::create_directory(folders_.checkpoint_root);
  EXPECT_THAT(Fault(), HasSubstr("--checkpoint-root"));
}

TEST_F(PrepareRightsTest, NumbersAreChecked) {
  options_.threads = 255;
  EXPECT_EQ(Fault(), "--max-trainer-threads: found 255, expected at least 256");
  options_ = {};
  options_.open_files = 0;
  EXPECT_EQ(Fault(), "--max-trainer-files: found 0, expected at least 256");
  options_ = {};
  options_.memory_bytes = -1;
  EXPECT_THAT(Fault(), HasSubstr("--max-trainer-memory-bytes: found -1"));
}

// ---- control groups, in a folder that looks like a tree of them

class TrainerGroupsTest : public ::testing::Test {
 protected:
  void Spill(const std::string& name, const std::string& text = "") {
    const std::string path = dir_.path() + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string Text(const std::string& name) { return *ReadFile(dir_.path() + "/" + name); }
  // What the kernel makes in a new group.
  void SpillGroup(const std::string& group) {
    for (const char* file : {"pids.max", "memory.max", "memory.oom.group", "cgroup.procs"})
      Spill(group + "/" + file);
  }
  absl::Status Find() { return TrainerGroups::FindFolder(dir_.path()).status(); }
  TempDir dir_;
};

TEST_F(TrainerGroupsTest, AServiceHasTheGroupAboveItsOwn) {
  Spill("proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/worker.service/daemon\n");
  EXPECT_THAT(std::string(Find().message()), HasSubstr("no tree of control groups of version 2"));
  Spill("sys/fs/cgroup/cgroup.controllers", "memory pids\n");
  EXPECT_EQ(*TrainerGroups::FindFolder(dir_.path()),
            dir_.path() + "/sys/fs/cgroup/system.slice/worker.service");
  Spill("proc/self/cgroup", "0::/init\n");
  EXPECT_THAT(std::string(Find().message()), HasSubstr("not in a part of the tree that is ours"));
}

TEST_F(TrainerGroupsTest, AContainerMovesItselfAside) {
  Spill("proc/self/cgroup", "0::/\n");
  Spill("sys/fs/cgroup/cgroup.controllers", "memory pids\n");
  EXPECT_THAT(std::string(Find().message()), HasSubstr("in the root of all control groups"));
  Spill("sys/fs/cgroup/cgroup.type", "domain\n");
  EXPECT_EQ(Find().code(), absl::StatusCode::kFailedPrecondition);  // no file to write to
  Spill("sys/fs/cgroup/stretto-worker/cgroup.procs");
  EXPECT_EQ(*TrainerGroups::FindFolder(dir_.path()), dir_.path() + "/sys/fs/cgroup");
  EXPECT_EQ(Text("sys/fs/cgroup/stretto-worker/cgroup.procs"), absl::StrCat(::getpid()));
  Spill("proc/self/cgroup", "4:memory:/a\n");
  EXPECT_THAT(std::string(Find().message()), HasSubstr("in no control group of version 2"));
}

TEST_F(TrainerGroupsTest, AGroupHasTheLimits) {
  Spill("cgroup.controllers", "cpu memory pids\n");
  Spill("cgroup.subtree_control");
  const auto groups = TrainerGroups::Open(dir_.path(), {.threads = 300, .memory_bytes = 1 << 30});
  ASSERT_TRUE(groups.ok()) << groups.status();
  SpillGroup("stretto-trainer-a-1-0");
  const absl::StatusOr<FileDescriptor> file = groups->Make("stretto-trainer-a-1-0");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(WriteAll(file->get(), "0", "").ok());
  EXPECT_EQ(Text("stretto-trainer-a-1-0/pids.max"), "300");
  EXPECT_EQ(Text("stretto-trainer-a-1-0/memory.max"), "1073741824");
  EXPECT_EQ(Text("stretto-trainer-a-1-0/memory.oom.group"), "1");
  EXPECT_EQ(Text("stretto-trainer-a-1-0/cgroup.procs"), "0");
}

TEST_F(TrainerGroupsTest, AGroupKnowsWhetherItRanOutOfMemory) {
  Spill("cgroup.controllers", "memory\n");
  Spill("cgroup.subtree_control");
  const auto groups = TrainerGroups::Open(dir_.path(), {.memory_bytes = 1 << 30});
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_FALSE(groups->RanOutOfMemory("stretto-trainer-a-1-0"));
  Spill("stretto-trainer-a-1-0/memory.events", "low 0\noom 0\noom_kill 0\n");
  EXPECT_FALSE(groups->RanOutOfMemory("stretto-trainer-a-1-0"));
  Spill("stretto-trainer-a-1-0/memory.events", "low 0\noom 2\noom_kill 1\n");
  EXPECT_TRUE(groups->RanOutOfMemory("stretto-trainer-a-1-0"));
}

TEST_F(TrainerGroupsTest, AMissingControllerIsNamed) {
  Spill("cgroup.controllers", "cpu\n");
  const absl::Status status = TrainerGroups::Open(dir_.path(), {.threads = 300}).status();
  EXPECT_EQ(status.message(), absl::StrCat("control group ", dir_.path(),
                                           ": found controllers "
                                           "\"cpu\", expected pids among them"));
}

TEST_F(TrainerGroupsTest, GroupsOfEndedTrainersAreRemoved) {
  Spill("cgroup.controllers", "pids\n");
  const auto groups = TrainerGroups::Open(dir_.path(), {});
  ASSERT_TRUE(groups.ok()) << groups.status();
  for (const char* name : {"stretto-trainer-a-1-0", "stretto-inspection"})
    fs::create_directory(dir_.path() + "/" + name);
  SpillGroup("stretto-trainer-b-1-0");  // as one with processes, it cannot be removed
  groups->RemoveEnded();
  EXPECT_FALSE(fs::exists(dir_.path() + "/stretto-trainer-a-1-0"));
  EXPECT_TRUE(fs::exists(dir_.path() + "/stretto-trainer-b-1-0"));
  EXPECT_TRUE(fs::exists(dir_.path() + "/stretto-inspection"));
}

// With the kernel's own groups, where this machine gives us some.
TEST(RealGroupsTest, AProcessStartsInAGroupThatBoundsItsThreads) {
  const absl::StatusOr<std::string> folder = TrainerGroups::FindFolder();
  if (!folder.ok()) GTEST_SKIP() << folder.status().message();
  absl::StatusOr<TrainerGroups> groups = TrainerGroups::Open(*folder, {.threads = 1});
  if (!groups.ok()) GTEST_SKIP() << groups.status().message();
  PreparedRights prepared;
  prepared.groups = *std::move(groups);
  const TempDir dir;
  const FileDescriptor out(
      ::open((dir.path() + "/out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const absl::StatusOr<ProcessId> process = Spawn({.binary = "/bin/sh",
                                                   .args = {"-c", "/bin/true || true"},
                                                   .env = {},
                                                   .output_fd = out.get(),
                                                   .rights = &prepared,
                                                   .group = "stretto-trainer-test-1-0"});
  ASSERT_TRUE(process.ok()) << process.status();
  const absl::StatusOr<FileDescriptor> watch = WatchProcess(*process);
  if (watch.ok()) Reap(*watch);
  EXPECT_THAT(*ReadFile(dir.path() + "/out"), HasSubstr("fork"));
  prepared.groups->RemoveEnded();
  EXPECT_FALSE(fs::exists(*folder + "/stretto-trainer-test-1-0"));
}

}  // namespace
}  // namespace stretto::daemon
