// SPDX-License-Identifier: Apache-2.0

// The daemon starts trainers with fewer rights than it has, and trusts what they write accordingly.

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/worker/daemon/daemon_fixture.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kStranger = 54321;  // of no file of this machine

class TrainerRightsTest : public DaemonTest {
 protected:
  DaemonOptions WithUser() const {
    DaemonOptions options = Options();
    options.rights.user = absl::StrCat(kStranger);
    return options;
  }
  RunFolder Folder(int rank) const { return *RunFolders(dir_.path()).Find({kUid, 1, rank}); }
  static uid_t OwnerOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_uid;
  }
};

TEST_F(TrainerRightsTest, ATrainerCannotMakeDeniedCalls) {
  const std::string script = dir_.path() + "/trainer.sh";
  std::ofstream(script) << "#!/bin/sh\nexec " << kBinaries << "/rights-attempt calls\n";
  ASSERT_EQ(::chmod(script.c_str(), 0755), 0);
  DaemonOptions options = Options();
  options.trainer_binary = script;
  StartDaemon(options);
  coordinator_->Send(AssignMessage("", 1));
  EXPECT_EQ(WaitForExit(0).reason(), "Completed");  // by its code
  const std::string log = *ReadFile(Folder(0).log());
  for (const char* line : {"ptrace 1\n", "userfaultfd 1\n", "keyctl 1\n", "io_uring_setup 1\n"})
    EXPECT_THAT(log, HasSubstr(line));
}

TEST_F(TrainerRightsTest, TrainersRunAsAnotherUserAndAreAdopted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root starts processes of other users";
  StartDaemon(WithUser());
  coordinator_->Send(AssignMessage("steps=2;then=hang"));
  for (const int rank : {0, 1}) ASSERT_TRUE(WaitForSteps(rank, 2));
  EXPECT_EQ(OwnerOf(absl::StrCat("/proc/", Trainer(0).pid)), kStranger);
  const RunFolder folder = Folder(0);
  EXPECT_EQ(OwnerOf(folder.reports()), kStranger);
  EXPECT_EQ(OwnerOf(folder.path() + "/pid"), 0u);
  const ProcessId trainer = Trainer(0);
  daemon_.reset();
  StartDaemon(WithUser());
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->registrations.size() == 2; }));
  EXPECT_EQ(coordinator_->registrations.at(1).held_size(), 2);
  EXPECT_TRUE(IsAlive(trainer));
  coordinator_->Send(StopMessage(5000));
  for (const int rank : {0, 1}) EXPECT_EQ(WaitForExit(rank).reason(), "Cancelled");
  EXPECT_FALSE(IsAlive(trainer));
}

// The folder is the trainer's, so it could name any process of this machine there.
TEST_F(TrainerRightsTest, AProcessThatATrainerNamesIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has files of several users";
  StartDaemon(WithUser());
  coordinator_->Send(AssignMessage("steps=1;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 1));
  const ProcessId trainer = Trainer(0);
  daemon_.reset();
  const std::string path = Folder(0).path() + "/pid";
  ASSERT_TRUE(WriteFileAtomic(path, FormatProcessId(trainer)).ok());
  ASSERT_EQ(::chown(path.c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(Folder(0).ReadProcess().status().code(), absl::StatusCode::kPermissionDenied);
  for (const StoredRun& run : RunFolders(dir_.path()).Scan()) EXPECT_FALSE(run.process.has_value());
  SignalGroup(trainer, SIGKILL);
}

TEST_F(TrainerRightsTest, ADaemonDoesNotStartWithAUserItCannotHave) {
  DaemonOptions options = Options();
  options.rights.user = "no-such-user";
  const absl::Status status = Daemon::Start(options, *clock_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "--trainer-user: found no user \"no-such-user\" on this machine");
}

}  // namespace
}  // namespace stretto::daemon
