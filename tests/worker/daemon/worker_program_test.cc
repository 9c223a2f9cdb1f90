// SPDX-License-Identifier: Apache-2.0

// The program stretto-worker: its output, exit codes and signals.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proto/base/limits.h"
#include "proto/base/version.h"
#include "tests/worker/daemon/daemon_fixture.h"
#include "worker/daemon/trainer_environment.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string out;  // stdout and stderr
};

Outcome RunWorker(std::vector<std::string> args, const std::string& program = "stretto-worker") {
  TempDir dir;
  const std::string path = dir.path() + "/out";
  FileDescriptor out(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const auto process = Spawn({absl::StrCat(kBinaries, "/", program), std::move(args),
                              TrainerEnvironment("", "127.0.0.1"), out.get(), -1});
  EXPECT_TRUE(process.ok()) << process.status();
  int status = 0;
  ::waitpid(process->pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, *ReadFile(path)};
}

// The program with its output on a pipe.
class RunningWorker {
 public:
  explicit RunningWorker(std::vector<std::string> args) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out_ = FileDescriptor(ends[0]);
    const FileDescriptor in(ends[1]);
    process_ = *Spawn({std::string(kBinaries) + "/stretto-worker", std::move(args),
                       TrainerEnvironment("", "127.0.0.1"), in.get(), -1});
  }
  // The line that begins with `start`; empty when the output ends before.
  std::string WaitForLine(const std::string& start) {
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
      } else if (absl::StartsWith(std::exchange(line, {}), start)) {
        return start;
      }
    }
    return "";
  }
  // Exit code, or minus the signal.
  int End(int signal) {
    ::kill(process_.pid, signal);
    int status = 0;
    ::waitpid(process_.pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  FileDescriptor out_;
  ProcessId process_;
};

class WorkerProgramTest : public DaemonTest {
 protected:
  std::vector<std::string> Args(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"--coordinator", coordinator_->address(),
                                     "--state-dir",   dir_.path(),
                                     "--name",        "node-a",
                                     "--trainer",     std::string(kBinaries) + "/fake-trainer"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(WorkerProgramTest, SaysItIsReadyAndStopsItsTrainersWhenToldToEnd) {
  RunningWorker worker(Args());
  ASSERT_NE(worker.WaitForLine("ready worker=node-a metrics="), "");
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  ASSERT_TRUE(WaitForSteps(0, 1));
  ASSERT_TRUE(WaitForSteps(1, 1));
  EXPECT_EQ(worker.End(SIGTERM), 0);
  EXPECT_EQ(WaitForExit(0).reason(), "Cancelled");
  EXPECT_TRUE(WaitForExit(1).stopped_by_daemon());
  EXPECT_FALSE(IsAlive(Trainer(0)));
}

// docs/reference/worker.md is what --help prints. STRETTO_REWRITE=1 writes the page.
TEST_F(WorkerProgramTest, TheReferenceIsItsHelp) {
  constexpr char kPage[] = STRETTO_SOURCE_DIR "/docs/reference/worker.md";
  const Outcome help = RunWorker({"--help"});
  ASSERT_EQ(help.code, 0) << help.out;
  const std::string page = absl::StrCat(
      "# Flags of stretto-worker\n\nThis page is generated: it is what `stretto-worker --help` "
      "prints.\n\n```text\n",
      absl::StrReplaceAll(help.out, {{absl::StrCat(kBinaries, "/"), ""}}), "```\n");
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(kPage, page).ok());
  }
  EXPECT_EQ(ReadFile(kPage).value_or("no page"), page);
}

TEST_F(WorkerProgramTest, LimitsHaveTheFlagsAndDefaultsOfTheirTable) {
  const std::string help = RunWorker({"--help"}).out;
  int flags = 0;
  for (const Limit* limit : kAllLimits) {
    absl::string_view flag = limit->flag;
    if (!absl::ConsumePrefix(&flag, "stretto-worker ")) continue;
    ++flags;
    const size_t at = help.find(absl::StrCat("\n  ", flag, " "));
    ASSERT_NE(at, std::string::npos) << flag;
    const std::string text = help.substr(at, help.find("\n  --", at + 1) - at);
    const std::string otherwise = absl::StrCat("(default: ", limit->value, ")");
    EXPECT_EQ(absl::StrContains(text, otherwise), limit->value > 0) << text;
  }
  EXPECT_GE(flags, 3);
}

// A secret is in a file that a flag names, so no flag takes one.
TEST_F(WorkerProgramTest, NoFlagTakesASecretByValue) {
  for (const char* program : {"stretto-worker", "stretto-coordinator"}) {
    std::string help = absl::AsciiStrToLower(RunWorker({"--help"}, program).out);
    ASSERT_THAT(help, HasSubstr("--tls-key"));
    absl::StrReplaceAll({{"--tokens", ""}}, &help);  // a file, of public keys
    for (const char* word : {"password", "passphrase", "secret", "token", "credential"})
      EXPECT_EQ(help.find(absl::StrCat("-", word)), std::string::npos) << program << " " << word;
  }
  const Outcome refused = RunWorker({"--coordinator", "127.0.0.1:1", "--state-dir", dir_.path(),
                                     "--tls-ca", "ca", "--tls-certificate", "cert", "--tls-key",
                                     "x\n-----BEGIN PRIVATE KEY-----\nMIIsecret"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr("--tls-key: found PEM text"));
  EXPECT_EQ(refused.out.find("MIIsecret"), std::string::npos) << refused.out;
}

TEST_F(WorkerProgramTest, TakesItsNameFromTheHostItIsTold) {
  RunningWorker worker({"--coordinator", coordinator_->address(), "--state-dir", dir_.path(),
                        "--trainer", std::string(kBinaries) + "/fake-trainer", "--host",
                        "Gpu-01.example.org"});
  ASSERT_NE(worker.WaitForLine("ready worker="), "");
  EXPECT_EQ(coordinator_->registrations.at(0).worker_id(), "gpu-01-example-org");
  EXPECT_EQ(coordinator_->registrations.at(0).host(), "Gpu-01.example.org");
  EXPECT_EQ(worker.End(SIGTERM), 0);
}

TEST_F(WorkerProgramTest, TrainersOutliveAKilledDaemonAndTheNextAdoptsThem) {
  ProcessId trainer;
  {
    RunningWorker worker(Args());
    coordinator_->Send(AssignMessage("steps=1;then=hang", 1));
    ASSERT_TRUE(WaitForSteps(0, 1));
    trainer = Trainer(0);
    EXPECT_EQ(worker.End(SIGKILL), -SIGKILL);
  }
  ASSERT_TRUE(IsAlive(trainer));
  ::kill(trainer.pid, SIGUSR1);
  coordinator_->held = {Reply(0, true, 2)};
  RunningWorker next(Args({"--detach-on-exit"}));
  ASSERT_TRUE(WaitForSteps(0, 2));
  ExpectGapless(0);
  ::kill(trainer.pid, SIGKILL);  // not a child of this daemon: the kernel tells it nothing
  EXPECT_EQ(WaitForExit(0).reason(), "ExitUnobserved");
  EXPECT_EQ(WaitForExit(0).step(), 2);
  EXPECT_EQ(next.End(SIGTERM), 0);
}

TEST_F(WorkerProgramTest, DetachOnExitLeavesTrainersAlone) {
  RunningWorker worker(Args({"--detach-on-exit"}));
  coordinator_->Send(AssignMessage("steps=1;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 1));
  EXPECT_EQ(worker.End(SIGTERM), 0);
  EXPECT_TRUE(IsAlive(Trainer(0)));
}

TEST_F(WorkerProgramTest, OtherProtocolVersionEndsItWithBothVersions) {
  coordinator_->refusal = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                       "coordinator 0.9.0 speaks protocol version 9");
  const Outcome outcome = RunWorker(Args());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(
      outcome.out,
      HasSubstr(absl::StrCat("refused worker node-a (build ", kBuildVersion, ", protocol version ",
                             kProtocolVersion, "): coordinator 0.9.0 speaks protocol version 9")));
}

TEST_F(WorkerProgramTest, DuplicateNameEndsItNamingTheConflict) {
  coordinator_->refusal = grpc::Status(grpc::StatusCode::ALREADY_EXISTS,
                                       "worker node-a is already connected from host other");
  const Outcome outcome = RunWorker(Args());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("worker node-a is already connected from host other"));
}

TEST_F(WorkerProgramTest, StateFolderInUseEndsIt) {
  StartDaemon();
  const Outcome outcome = RunWorker(Args());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("state folder ", dir_.path(),
                                                  " is in use by another stretto-worker (pid ",
                                                  ::getpid(), ")")));
}

}  // namespace
}  // namespace stretto::daemon
