// SPDX-License-Identifier: Apache-2.0

// The coordinator's state is copied while jobs train, lost, and put back (docs/operations/RUN.md).

#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/machine_faults.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kSteps = 60;
constexpr char kSqlite[] = "/usr/bin/sqlite3";

class BackupTest : public ClusterTest {
 protected:
  // One job has ended, another trains.
  void StartJobs() {
    StartCluster();
    RunJob({.name = "ended", .steps = 2});
    ASSERT_EQ(Stretto(Submit({.name = "training", .steps = kSteps, .more = kSlow}, {})).code, 0);
    AwaitStep("training", 2);
    trainer_ = TrainerPid("training", 0);
  }
  void CopyState() { fs::copy(Path("coordinator"), Path("backup"), fs::copy_options::recursive); }
  // What came after the backup is forgotten; everything else is as if nothing had happened.
  void LoseAndRestore() {
    ASSERT_EQ(Stretto(Submit({.name = "later", .steps = 2}, {})).code, 0);
    coordinator().Kill();
    fs::remove_all(Path("coordinator"));
    fs::rename(Path("backup"), Path("coordinator"));
    StartCoordinator();
    AwaitWorker("node-a");
    EXPECT_EQ(Job("ended")["state"], "succeeded");
    AwaitState("training", "succeeded");
    EXPECT_EQ(TrainerPid("training", 0), trainer_);
    EXPECT_EQ(NumbersOf(Steps("training")), Range(1, kSteps));
    const Outcome later = Stretto({"job", "get", "later"});
    EXPECT_NE(later.code, 0);
    EXPECT_THAT(later.err, HasSubstr("later"));
    RunJob({.name = "next", .steps = 2});
  }

  pid_t trainer_ = 0;
};

TEST_F(BackupTest, TakenOfAStoppedCoordinatorCostsNoStepAndRestoresItsJobs) {
  StartJobs();
  coordinator().Signal(SIGTERM);
  ASSERT_EQ(coordinator().Wait(), 0);
  // All is in the one file.
  EXPECT_FALSE(fs::exists(Path("coordinator/coordinator.db-wal")));
  CopyState();
  const int before = LoggedStep("training", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("training", 0) >= before + 2; }));
  StartCoordinator();
  AwaitWorker("node-a");
  LoseAndRestore();
}

TEST_F(BackupTest, TakenAtOneInstantOfARunningCoordinatorRestoresItsJobs) {
  StartJobs();
  // What a snapshot of the file system sees.
  coordinator().Signal(SIGSTOP);
  CopyState();
  coordinator().Signal(SIGCONT);
  LoseAndRestore();
}

TEST_F(BackupTest, TakenByTheCommandOfARunningCoordinatorRestoresItsJobs) {
  StartJobs();
  const std::string copy = Path("copy.db");
  const Outcome taken = RunDaemon({STRETTO_BINARY_DIR "/stretto-coordinator", "--state-dir",
                                   Path("coordinator"), "--backup", copy});
  ASSERT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.out, HasSubstr("backed up 2 jobs and 1 workers to " + copy));
  fs::create_directory(Path("backup"));
  fs::rename(copy, Path("backup/coordinator.db"));
  LoseAndRestore();
}

TEST_F(BackupTest, OntoAReadOnlyDiskIsRefusedAndTheCoordinatorContinues) {
  SmallDisk disk(Path("copies"), 4096);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  StartCoordinator();
  disk.MakeReadOnly();
  const std::string copy = Path("copies/coordinator.db");
  const Outcome refused = RunDaemon({STRETTO_BINARY_DIR "/stretto-coordinator", "--state-dir",
                                     Path("coordinator"), "--backup", copy});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err,
              HasSubstr(absl::StrCat("backup ", copy, ": create ", copy,
                                     ".partial: Read-only file system; expected a disk that can "
                                     "be written")));
  EXPECT_THAT(Fetch(metrics_port_, "/readyz"), HasSubstr(" 200 "));
}

// A disk that has failed can still be read, so its state can be rescued before it is repaired.
TEST_F(BackupTest, OfAStateOnADiskThatBecameReadOnlyRestoresItsJobs) {
  FailingDisk disk(Path("coordinator"), Path("disk"));
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  StartCoordinator();
  ASSERT_EQ(Stretto(Submit({.name = "kept", .steps = 2}, {})).code, 0);
  disk.Fail();
  const Arguments backup = {STRETTO_BINARY_DIR "/stretto-coordinator", "--state-dir",
                            Path("coordinator"), "--backup"};
  for (const char* name : {"of-running", "of-stopped"}) {
    Arguments argv = backup;
    argv.push_back(Path(name));
    const Outcome taken = RunDaemon(argv);
    EXPECT_EQ(taken.code, 0) << taken.err;
    EXPECT_THAT(taken.out, HasSubstr("backed up 1 jobs and 0 workers to " + Path(name)));
    coordinator().Signal(SIGTERM);
    EXPECT_EQ(coordinator().Wait(), 0);
  }
  KillAll();
}

TEST_F(BackupTest, AnotherProgramCanReadTheFileOfARunningCoordinatorAndNotWriteToIt) {
  if (access(kSqlite, X_OK) != 0) GTEST_SKIP() << "no " << kSqlite << " here";
  StartCoordinator();
  const std::string file = Path("coordinator/coordinator.db");
  EXPECT_EQ(RunDaemon({kSqlite, file, ".backup " + Path("copy.db")}).code, 0);
  const Outcome change = RunDaemon({kSqlite, file, "DELETE FROM workers"});
  EXPECT_NE(change.code, 0);
  EXPECT_THAT(change.err, HasSubstr("locked"));
}

}  // namespace
}  // namespace stretto::integration
