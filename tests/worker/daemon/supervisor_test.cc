// SPDX-License-Identifier: Apache-2.0

// The supervisor with shell scripts for trainers.

#include "worker/daemon/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/rank_exit.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;
using ::testing::HasSubstr;

constexpr char kUid[] = "0123456789abcdef";

class SupervisorTest : public ::testing::Test {
 protected:
  void TearDown() override {
    supervisor_.reset();
    for (const StoredRun& run : folders_.Scan()) {
      if (run.process.has_value()) SignalGroup(*run.process, SIGKILL);
    }
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  // `script` sees $RANK.
  void Start(const std::string& script, absl::Duration grace = absl::Seconds(10)) {
    const std::string path = dir_.path() + "/trainer.sh";
    std::ofstream(path) << "#!/bin/sh\nRANK=$8\n" << script << "\n";
    ::chmod(path.c_str(), 0700);
    Supervisor::Options options = options_;
    options.trainer_binary = path;
    options.grace = grace;
    options.socket_path = dir_.path() + "/trainer.sock";
    options.slots = slots_;
    options.fault = [](const Slot& slot) { return slot.fault; };
    options.exit_grace = exit_grace_;
    supervisor_.emplace(options, folders_, relay_, Clock::Real(), [](int) {});
    supervisor_->Adopt();
  }

  static bool Await(const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!done() && absl::Now() < deadline) std::this_thread::yield();
    return done();
  }

  // The rest of a script that ends, once it is asked to, when there is a file `saved`.
  std::string SavesUntil(const std::string& saved) const {
    return "trap 'while [ ! -e " + saved + " ]; do :; done; exit 0' TERM\n: > " + dir_.path() +
           "/ready\nwhile :; do :; done";
  }
  void StopWhileItSaves() {
    supervisor_->Assign(MakeAssign(1));
    ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_.path() + "/ready"); }));
    supervisor_->StopOne({kUid, 1, 0}, absl::Minutes(1), "nobody wants it");
  }

  static v1::Assign MakeAssign(int ranks = 2, int64_t epoch = 1) {
    v1::Assign assign;
    assign.set_job_id("gpt");
    assign.set_job_uid(kUid);
    assign.set_epoch(epoch);
    for (int rank = 0; rank < ranks; ++rank) {
      assign.add_ranks()->set_rank(rank);
      assign.mutable_ranks(rank)->set_slot(rank);
    }
    return assign;
  }

  v1::RankExit ExitOf(int rank, int64_t epoch = 1) {
    EXPECT_TRUE(supervisor_->WaitUntilEmpty(absl::Seconds(20)));
    const std::optional<v1::RankExit> exit = relay_.Exit({kUid, epoch, rank});
    EXPECT_TRUE(exit.has_value());
    return exit.value_or(v1::RankExit());
  }

  std::string Log(int rank) {
    const absl::StatusOr<RunFolder> folder = folders_.Find({kUid, 1, rank});
    return folder.ok() ? ReadFile(folder->log()).value_or("") : "";
  }

  TempDir dir_;
  Supervisor::Options options_;  // what Start does not set
  std::vector<Slot> slots_ = ProbeNode(8)->slots;
  absl::Duration exit_grace_ = absl::Seconds(10);
  RunFolders folders_{dir_.path()};
  ReportRelay relay_{[](const ReportRelay::Report&) {}, [] {}};
  std::optional<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, CapturesOutputAndGivesACleanEnvironment) {
  ::setenv("SECRET_TOKEN", "hunter2", 1);
  Start("echo to stdout; echo to stderr >&2; env; ls /proc/self/fd; echo args $*");
  supervisor_->Assign(MakeAssign(1));
  EXPECT_EQ(ExitOf(0).reason(), "Completed");
  const std::string log = Log(0);
  EXPECT_THAT(log, HasSubstr("--- stretto-worker starts job gpt epoch 1 rank 0 in slot 0\n"));
  EXPECT_THAT(log, HasSubstr("to stdout\nto stderr\n"));
  EXPECT_THAT(log, HasSubstr("OMP_NUM_THREADS=1\n"));
  EXPECT_FALSE(absl::StrContains(log, "SECRET_TOKEN"));
  EXPECT_THAT(log, HasSubstr("args --socket " + dir_.path() + "/trainer.sock --job-uid " + kUid +
                             " --epoch 1 --rank 0\n"));
  EXPECT_THAT(log, HasSubstr("0\n1\n2\n3\nargs"));  // 3 is ls reading the folder
}

TEST_F(SupervisorTest, RunsItInASessionOfItsOwn) {
  Start("ps -o sid= -p $$ | tr -d ' '; echo $$");
  supervisor_->Assign(MakeAssign(1));
  ExitOf(0);
  const int pid = folders_.Find({kUid, 1, 0})->ReadProcess()->pid;
  EXPECT_THAT(Log(0), HasSubstr(absl::StrCat(pid, "\n", pid, "\n")));
}

TEST_F(SupervisorTest, FirstFailureStopsTheRestOfTheGang) {
  // Rank 0 fails only when rank 1 is there.
  Start(
      "[ $RANK = 1 ] && exec sleep 600\n"
      "while [ ! -e " +
      folders_.root() + "/gpt-01234567/epoch-1/rank-1/pid ]; do :; done; exit 5");
  supervisor_->Assign(MakeAssign());
  const v1::RankExit first = ExitOf(0);
  EXPECT_EQ(first.exit_code(), 5);
  EXPECT_EQ(first.reason(), "Failed");
  EXPECT_THAT(first.message(), HasSubstr("rank 0 of job gpt (pid "));
  EXPECT_THAT(first.message(), HasSubstr("exited with code 5 without a last report"));
  const v1::RankExit second = ExitOf(1);
  EXPECT_EQ(second.signal(), SIGTERM) << second.DebugString();
  EXPECT_THAT(second.message(), HasSubstr("the daemon stopped it: rank 0 of the job failed"));
  EXPECT_TRUE(folders_.Find({kUid, 1, 1})->Stopping());
  EXPECT_FALSE(folders_.Find({kUid, 1, 0})->Stopping());
}

// Where the kernel counts none, SIGKILL came from somebody else.
TEST_F(SupervisorTest, ATrainerThatTheKernelEndsHadNoMemory) {
  options_.root = dir_.path();
  const std::string table = dir_.path() + "/proc/vmstat";
  std::filesystem::create_directory(dir_.path() + "/proc");
  std::ofstream(table) << "nr_free_pages 7\noom_kill 3\n";
  Start("[ $RANK = 0 ] && kill -9 $$; echo 'oom_kill 4' > " + table + "; kill -9 $$");
  supervisor_->Assign(MakeAssign(1));
  EXPECT_EQ(ExitOf(0).reason(), "Killed");
  v1::Assign second = MakeAssign(1, 2);
  second.mutable_ranks(0)->set_rank(1);
  supervisor_->Assign(second);
  const v1::RankExit exit = ExitOf(1, 2);
  EXPECT_EQ(exit.reason(), "InsufficientMemory");
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_THAT(exit.message(), HasSubstr("was killed by the kernel, because memory ran out"));
}

// What the daemon ends is no case of it, whatever happens on the machine meanwhile.
TEST_F(SupervisorTest, ATrainerThatIsKilledAfterItsGraceHadMemory) {
  options_.root = dir_.path();
  std::filesystem::create_directory(dir_.path() + "/proc");
  Start("trap '' TERM; echo 'oom_kill 1' > " + dir_.path() + "/proc/vmstat; : > " + dir_.path() +
        "/ready; while :; do :; done");
  supervisor_->Assign(MakeAssign(1));
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_.path() + "/ready"); }));
  supervisor_->StopOne({kUid, 1, 0}, absl::Milliseconds(1), "nobody wants it");
  EXPECT_EQ(ExitOf(0).reason(), "Killed");
}

TEST_F(SupervisorTest, AFailureBeforeTheWholeGangRunsStopsItToo) {
  Start("[ $RANK = 0 ] && exit 5; exec sleep 600");
  supervisor_->Assign(MakeAssign(8));
  EXPECT_EQ(ExitOf(0).exit_code(), 5);
  for (int rank = 1; rank < 8; ++rank) {
    const v1::RankExit exit = ExitOf(rank);
    EXPECT_TRUE(exit.reason() == "Cancelled" || exit.signal() == SIGTERM) << exit.DebugString();
  }
}

TEST_F(SupervisorTest, AFullDiskUnderTheLogIsAWarningNotAnEnd) {
  Start("echo lost; exit 0");
  const v1::Assign assign = MakeAssign(1);
  // The disk is full where the log will be: the folder is there first, without its assignment.
  const std::string path = folders_.Create(assign, 0)->path();
  std::filesystem::create_symlink("/dev/full", path + "/trainer.log");
  std::filesystem::remove(path + "/assignment");
  supervisor_->Assign(assign);
  EXPECT_EQ(ExitOf(0).exit_code(), 0);
  relay_.End({kUid, 1, 0}, false);
  const std::optional<ReportRelay::Report> warning = relay_.Next();
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->sequence(), 1);
  EXPECT_EQ(warning->warning().condition(), "LogIntact");
  EXPECT_EQ(warning->warning().reason(), "DiskFull");
  EXPECT_EQ(warning->warning().message(), "the trainer's output is lost: write " + path +
                                              "/trainer.log: No space left on device");
  EXPECT_EQ(relay_.Next()->sequence(), 2);
}

TEST_F(SupervisorTest, TrainerInAGpuSlotSeesThatGpuOnly) {
  slots_[1].kind = SlotKind::kGpu;
  slots_[1].gpu_uuid = "GPU-b";
  slots_[1].core = -1;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  setenv("NCCL_DEBUG", "warn", 1);
  setenv("STRETTO_PLUGIN_PATH", "/plugins", 1);
  unsetenv("NCCL_SOCKET_IFNAME");
  Start(
      "echo $RANK $STRETTO_PLUGIN_PATH $CUDA_VISIBLE_DEVICES $NCCL_LAUNCH_ORDER_IMPLICIT "
      "$CUDA_DEVICE_MAX_CONNECTIONS $NCCL_DEBUG $NCCL_SOCKET_IFNAME > " +
      dir_.path() + "/seen.$RANK");
  supervisor_->Assign(MakeAssign());
  EXPECT_EQ(ExitOf(0).exit_code(), 0);
  EXPECT_EQ(ExitOf(1).exit_code(), 0);
  EXPECT_EQ(*ReadFile(dir_.path() + "/seen.0"), "0 /plugins\n");
  EXPECT_EQ(*ReadFile(dir_.path() + "/seen.1"), "1 /plugins GPU-b 1 32 warn =lo\n");
}

TEST_F(SupervisorTest, GpuWithoutAUuidStartsNothing) {
  slots_[1].kind = SlotKind::kGpu;
  slots_[1].description = "unknown (GPU 1)";
  Start("sleep 60");
  supervisor_->Assign(MakeAssign());
  EXPECT_EQ(ExitOf(1).reason(), "SlotFaulty");
  EXPECT_THAT(ExitOf(1).message(), HasSubstr("is faulty: the driver reports no UUID"));
}

TEST_F(SupervisorTest, OperatorsChooseNcclsInterface) {
  setenv("NCCL_SOCKET_IFNAME", "ib", 1);
  slots_[1].kind = SlotKind::kGpu;
  slots_[1].gpu_uuid = "GPU-b";
  Start("echo $NCCL_SOCKET_IFNAME > " + dir_.path() + "/seen.$RANK");
  supervisor_->Assign(MakeAssign());
  EXPECT_EQ(ExitOf(1).exit_code(), 0);
  EXPECT_EQ(*ReadFile(dir_.path() + "/seen.1"), "ib\n");
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST_F(SupervisorTest, FaultySlotStartsNothingAndSaysWhy) {
  slots_[1].description = "NVIDIA H200 (GPU 1)";
  slots_[1].fault = "Xid 79";
  Start("sleep 60");
  supervisor_->Assign(MakeAssign());
  const v1::RankExit exit = ExitOf(1);
  EXPECT_EQ(exit.reason(), "SlotFaulty");
  EXPECT_EQ(exit.message(),
            "rank 1 of job gpt did not start: slot 1, NVIDIA H200 (GPU 1), is faulty: Xid 79");
}

TEST_F(SupervisorTest, AProgramThatCannotRunIsReported) {
  Start("exit 0");
  std::filesystem::permissions(dir_.path() + "/trainer.sh", std::filesystem::perms::none);
  std::filesystem::remove(dir_.path() + "/trainer.sh");
  supervisor_->Assign(MakeAssign());
  EXPECT_EQ(relay_.Exit({kUid, 1, 0})->reason(), "SpawnFailed");
  EXPECT_EQ(relay_.Exit({kUid, 1, 0})->exit_code(), 127);
  EXPECT_THAT(relay_.Exit({kUid, 1, 0})->message(),
              HasSubstr("rank 0 of job gpt did not start: start trainer " + dir_.path() +
                        "/trainer.sh: No such file or directory"));
  EXPECT_EQ(relay_.Exit({kUid, 1, 1})->reason(), "Cancelled");
}

TEST_F(SupervisorTest, AnOlderEpochIsRefusedAndALiveOneOnDiskIsKilled) {
  Start("exec sleep 600");
  supervisor_->Assign(MakeAssign(1, 3));
  supervisor_->Assign(MakeAssign(1, 2));
  EXPECT_FALSE(folders_.Find({kUid, 2, 0}).ok());
  EXPECT_THAT(std::string(supervisor_->CheckCurrent({kUid, 2, 0}).message()),
              HasSubstr("epoch 2 is not current: the epoch of that job on this node is 3"));
  EXPECT_EQ(supervisor_->CheckCurrent({kUid, 3, 1}).code(), absl::StatusCode::kAborted);
  const ProcessId old = *folders_.Find({kUid, 3, 0})->ReadProcess();
  supervisor_.reset();
  ASSERT_TRUE(IsAlive(old));  // a supervisor that goes leaves its trainers

  ASSERT_TRUE(folders_.Create(MakeAssign(1, 4), 0).ok());  // a newer epoch that never started
  Start("exec sleep 600");
  EXPECT_TRUE(supervisor_->WaitUntilEmpty(absl::Seconds(20)));
  EXPECT_FALSE(IsAlive(old));
  EXPECT_EQ(relay_.Exit({kUid, 4, 0})->reason(), "ExitUnobserved");
}

// A trainer that was asked to end may be saving its state, so who comes next waits for its slot.
TEST_F(SupervisorTest, AnAssignmentWaitsForTrainersThatAreBeingStopped) {
  const std::string saved = dir_.path() + "/saved";
  Start("[ $6 != 1 ] && exit 0\n" + SavesUntil(saved));
  StopWhileItSaves();
  v1::Assign other = MakeAssign(1, 2), cancelled = MakeAssign(1, 3);
  other.set_job_uid("other567");
  cancelled.set_job_uid("cancelled");
  supervisor_->Assign(other);
  supervisor_->Assign(other);  // again, as after a new session
  supervisor_->Assign(cancelled);
  supervisor_->Stop("cancelled", 3, absl::Seconds(10), "cancelled");
  EXPECT_THAT(relay_.Exit({"cancelled", 3, 0})->message(),
              HasSubstr("it was stopped before its slot was free"));
  EXPECT_FALSE(folders_.Find({"other567", 2, 0}).ok());
  EXPECT_TRUE(supervisor_->Alive({kUid, 1, 0}));

  std::ofstream(saved) << "now";
  ASSERT_TRUE(Await([&] { return relay_.Exit({"other567", 2, 0}).has_value(); }));
  EXPECT_EQ(relay_.Exit({"other567", 2, 0})->reason(), "Completed")
      << relay_.Exit({"other567", 2, 0})->message();
  EXPECT_EQ(ExitOf(0).exit_code(), 0);
}

// The job itself may come back to the node while its trainers still save.
TEST_F(SupervisorTest, ANewerEpochKeepsTheGraceOfTrainersThatAreBeingStopped) {
  const std::string saved = dir_.path() + "/saved";
  Start("[ $6 = 2 ] && exit 0\n" + SavesUntil(saved), /*grace=*/absl::ZeroDuration());
  StopWhileItSaves();
  supervisor_->Assign(MakeAssign(1, 2));
  std::ofstream(saved) << "now";
  ASSERT_TRUE(Await([&] { return relay_.Exit({kUid, 2, 0}).has_value(); }));
  EXPECT_EQ(ExitOf(0, 2).reason(), "Completed");
  EXPECT_EQ(ExitOf(0).signal(), 0);  // it was not killed
}

TEST_F(SupervisorTest, AnAssignmentThatWaitsIsForgottenByANewSession) {
  const std::string saved = dir_.path() + "/saved";
  Start(SavesUntil(saved));
  StopWhileItSaves();
  v1::Assign other = MakeAssign(1, 2);
  other.set_job_uid("other567");
  supervisor_->Assign(other);
  supervisor_->ForgetWaiting();
  std::ofstream(saved) << "now";
  EXPECT_EQ(ExitOf(0).exit_code(), 0);
  EXPECT_FALSE(folders_.Find({"other567", 2, 0}).ok());
}

// Else it would be killed after its grace, and those that wait for it with it.
TEST_F(SupervisorTest, ATrainerThatStandsStillContinuesInOrderToEnd) {
  const std::string saved = dir_.path() + "/saved";
  Start(SavesUntil(saved));
  std::ofstream(saved) << "now";
  supervisor_->Assign(MakeAssign(1));
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_.path() + "/ready"); }));
  SignalGroup(*folders_.Scan().at(0).process, SIGSTOP);
  supervisor_->StopOne({kUid, 1, 0}, absl::Minutes(1), "it hangs");
  EXPECT_EQ(ExitOf(0).signal(), 0);  // within 20 s
}

// As when the stop overtakes an assignment on its way.
TEST_F(SupervisorTest, AnEpochThatWasStoppedNeverStarts) {
  Start("exit 0");
  supervisor_->Stop(kUid, 1, absl::Seconds(10), "cancelled");
  supervisor_->Assign(MakeAssign(1));
  EXPECT_THAT(relay_.Exit({kUid, 1, 0})->message(), HasSubstr("it was stopped before it started"));
  supervisor_->Assign(MakeAssign(1, 2));
  ASSERT_TRUE(supervisor_->WaitUntilEmpty(absl::Seconds(20)));
  EXPECT_EQ(ExitOf(0, 2).reason(), "Completed");
}

// Only the daemon that got the report knew that the process must end.
TEST_F(SupervisorTest, ATrainerThatReportedItsExitToAnEarlierDaemonMustEndToo) {
  Start("exec sleep 600");
  supervisor_->Assign(MakeAssign(1));
  const ProcessId process = *folders_.Find({kUid, 1, 0})->ReadProcess();
  supervisor_.reset();
  ReportRelay::Report report;
  report.mutable_exit()->set_reason("Completed");
  relay_.Append({kUid, 1, 0}, report);
  exit_grace_ = absl::Milliseconds(100);
  Start("exec sleep 600");
  EXPECT_TRUE(supervisor_->WaitUntilEmpty(absl::Seconds(20)));
  EXPECT_FALSE(IsAlive(process));
  EXPECT_EQ(relay_.Exit({kUid, 1, 0})->reason(), "Completed");
}

TEST_F(SupervisorTest, APidFileOfAnotherProcessIsNotTrusted) {
  Start("exit 0");
  const RunFolder folder = *folders_.Create(MakeAssign(1), 0);
  ProcessId self = *IdentifyProcess(::getpid());
  --self.start_ticks;  // the number was given to us after that process had gone
  ASSERT_TRUE(folder.WriteProcess(self).ok());
  supervisor_->Adopt();
  EXPECT_FALSE(supervisor_->Alive({kUid, 1, 0}));
  EXPECT_EQ(relay_.Exit({kUid, 1, 0})->reason(), "ExitUnobserved");
}

}  // namespace
}  // namespace stretto::daemon
