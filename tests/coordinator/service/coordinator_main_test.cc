// SPDX-License-Identifier: Apache-2.0

// The daemon as a process.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/store/schema.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "tests/coordinator/service/harness.h"
#include "tests/golden_messages.h"

namespace stretto {
namespace {

using ::testing::MatchesRegex;

// stretto-coordinator with its output on a pipe each; killed with this object if still there.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), STRETTO_BINARY_DIR "/stretto-coordinator");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> out, err;
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    out_ = fdopen(out[0], "r");
    err_ = fdopen(err[0], "r");
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    fclose(out_);
    fclose(err_);
  }

  pid_t pid() const { return pid_; }
  // Empty at the end of the output.
  std::string OutputLine() {
    std::array<char, 256> line{};
    return fgets(line.data(), line.size(), out_) != nullptr ? line.data() : "";
  }
  std::string Errors() {
    std::string text;
    for (int c = fgetc(err_); c != EOF; c = fgetc(err_)) text.push_back(static_cast<char>(c));
    return text;
  }
  // The exit code, or minus the signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  FILE* out_;
  FILE* err_;
};

class CoordinatorMainTest : public ::testing::Test {
 protected:
  CoordinatorMainTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-main-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    golden_.Hide(folder_, "FOLDER");
  }
  ~CoordinatorMainTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> Arguments(const std::string& state, const std::string& listen) const {
    return {"--listen",    listen,        "--metrics-listen",
            "127.0.0.1:0", "--state-dir", absl::StrCat(folder_, "/", state)};
  }

  GoldenMessages golden_{"stretto-coordinator"};
  std::string folder_;
};

constexpr char kAnyPort[] = "127.0.0.1:0";

TEST_F(CoordinatorMainTest, SaysItsPortsAndStopsWhenAsked) {
  for (int signal : {SIGTERM, SIGINT}) {
    Process daemon(Arguments("a", kAnyPort));
    EXPECT_THAT(daemon.OutputLine(), MatchesRegex("listening grpc=[0-9]+ metrics=[0-9]+\n"));
    kill(daemon.pid(), signal);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/a/coordinator.db"));
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/a/audit.log"));
  }
}

TEST_F(CoordinatorMainTest, AnAuditLogOnAFullDiskEndsNoCallAndOneThatCannotBeOpenedIsRefused) {
  std::vector<std::string> arguments = Arguments("a", kAnyPort);
  arguments.insert(arguments.end(), {"--audit-log", "/dev/full"});
  Process daemon(arguments);
  int port = 0;
  ASSERT_EQ(sscanf(daemon.OutputLine().c_str(), "listening grpc=%d", &port), 1);
  const auto jobs = v1alpha1::JobService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  v1alpha1::Job job;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(jobs->CreateJob(&context, service::TinyJob("gpt"), &job).ok());
  }
  kill(daemon.pid(), SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(daemon.Errors(),
              ::testing::ContainsRegex("audit line not written: RESOURCE_EXHAUSTED: write /dev/full"
                                       "[^\n]* caller=local [^\n]* method=CreateJob "
                                       "resource=jobs/gpt [^\n]* result=OK\n"));
  arguments.back() = folder_ + "/nowhere/audit.log";
  Process refused(arguments);
  EXPECT_EQ(refused.Wait(), 1);
  golden_.Add(refused.Errors(), {"--audit-log: open ", "/nowhere/audit.log"});
}

TEST_F(CoordinatorMainTest, LimitsHaveTheFlagsAndDefaultsOfTheirTable) {
  Process daemon({"--help"});
  std::string help;
  for (std::string line = daemon.OutputLine(); !line.empty(); line = daemon.OutputLine()) {
    help += line;
  }
  EXPECT_EQ(daemon.Wait(), 0);
  int flags = 0;
  for (const Limit* limit : kAllLimits) {
    if (!absl::StartsWith(limit->flag, "--")) continue;  // fixed, or the worker's
    ++flags;
    const size_t at = help.find(absl::StrCat(limit->flag, " "));
    ASSERT_NE(at, std::string::npos) << limit->flag;
    const std::string line = help.substr(at, help.find('\n', at) - at);
    const std::string otherwise = absl::StrCat("=", limit->value);
    EXPECT_EQ(absl::EndsWith(line, otherwise), limit->value > 0) << line;
  }
  EXPECT_GE(flags, 3);
}

TEST_F(CoordinatorMainTest, PortInUseIsExitCodeOneNamingTheAddress) {
  Process first(Arguments("a", kAnyPort));
  int port = 0, metrics_port = 0;
  ASSERT_EQ(
      sscanf(first.OutputLine().c_str(), "listening grpc=%d metrics=%d", &port, &metrics_port), 2);
  const std::string taken = absl::StrCat("127.0.0.1:", port);
  Process second(Arguments("b", taken));
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_EQ(second.OutputLine(), "");
  golden_.Hide(taken, "TAKEN");
  golden_.Add(second.Errors(), {"stretto-coordinator: --listen: ", taken});
  std::vector<std::string> arguments = Arguments("b", kAnyPort);
  arguments[3] = absl::StrCat("127.0.0.1:", metrics_port);
  Process third(arguments);
  EXPECT_EQ(third.Wait(), 1);
  golden_.Hide(arguments[3], "METRICS");
  golden_.Add(third.Errors(), {"stretto-coordinator: metrics: ", arguments[3]});
}

TEST_F(CoordinatorMainTest, StateFolderBelongsToOneCoordinator) {
  Process first(Arguments("a", kAnyPort));
  ASSERT_NE(first.OutputLine(), "");
  Process second(Arguments("a", kAnyPort));
  EXPECT_EQ(second.Wait(), 1);
  const std::string pid = absl::StrCat("pid ", first.pid());
  golden_.Hide(pid, "pid PID");
  golden_.Add(second.Errors(), {"stretto-coordinator: --state-dir: " + folder_ + "/a", pid});
}

TEST_F(CoordinatorMainTest, ListeningBeyondLoopbackIsRefused) {
  Process daemon(Arguments("a", "0.0.0.0:0"));
  EXPECT_EQ(daemon.Wait(), 1);
  golden_.Add(daemon.Errors(),
              {"--listen: found \"0.0.0.0:0\"", "--insecure-listen-beyond-loopback"});
  std::vector<std::string> arguments = Arguments("b", "0.0.0.0:0");
  arguments.push_back("--insecure-listen-beyond-loopback");
  Process willing(arguments);
  EXPECT_NE(willing.OutputLine(), "");
  arguments = Arguments("c", kAnyPort);
  arguments[3] = "0.0.0.0:0";
  Process metrics(arguments);
  EXPECT_EQ(metrics.Wait(), 1);
  golden_.Add(metrics.Errors(),
              {"--metrics-listen: found 0.0.0.0:0,", "--insecure-metrics-beyond-loopback"});
  arguments.push_back("--insecure-metrics-beyond-loopback");
  Process open(arguments);
  EXPECT_NE(open.OutputLine(), "");
}

TEST_F(CoordinatorMainTest, BackUpOfARunningCoordinatorOpensAndItsNameIsNotTakenTwice) {
  const std::string copy = folder_ + "/copy.db";
  const std::vector<std::string> back_up = {"--state-dir", folder_ + "/a", "--backup", copy};
  Process daemon(Arguments("a", kAnyPort));
  ASSERT_NE(daemon.OutputLine(), "");
  Process first(back_up);
  EXPECT_THAT(first.OutputLine(),
              MatchesRegex("backed up 0 jobs and 0 workers to " + copy + ", [0-9]+ bytes\n"));
  EXPECT_EQ(first.Wait(), 0);
  Process second(back_up);
  EXPECT_EQ(second.Wait(), 1);
  golden_.Add(second.Errors(), {"stretto-coordinator: backup " + copy + ": found a file"});
  std::filesystem::create_directory(folder_ + "/b");
  std::filesystem::rename(copy, folder_ + "/b/coordinator.db");
  std::vector<std::string> arguments = Arguments("b", kAnyPort);
  arguments.push_back("--restored");
  Process restored(arguments);
  EXPECT_NE(restored.OutputLine(), "");
}

TEST_F(CoordinatorMainTest, DamagedDatabaseIsRefusedUntilItIsRepaired) {
  const std::string path = folder_ + "/a/coordinator.db";
  {
    Process daemon(Arguments("a", kAnyPort));
    ASSERT_NE(daemon.OutputLine(), "");
    Process busy({"--state-dir", folder_ + "/a", "--repair"});
    EXPECT_EQ(busy.Wait(), 1);
    const std::string pid = absl::StrCat("pid ", daemon.pid());
    golden_.Hide(pid, "pid PID");
    golden_.Add(busy.Errors(), {"is in use by the coordinator with " + pid});
    kill(daemon.pid(), SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  const std::vector<std::string> repair = {"--state-dir", folder_ + "/a", "--repair"};
  {
    Process whole(repair);
    EXPECT_EQ(whole.OutputLine(), "the database is whole; nothing was changed\n");
    EXPECT_EQ(whole.Wait(), 0);
  }
  // The first page has the schema and no record.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file << std::string(200, '\x5a');
  file.close();
  Process damaged(Arguments("a", kAnyPort));
  EXPECT_EQ(damaged.Wait(), 1);
  golden_.Add(damaged.Errors(), {"stretto-coordinator: job store " + path,
                                 "Restore a copy of it, or keep what is whole with "
                                 "stretto-coordinator --repair"});
  Process repaired(repair);
  EXPECT_EQ(repaired.Wait(), 3);  // nobody can tell whether there were more jobs
  std::string text;
  for (std::string line = repaired.OutputLine(); !line.empty(); line = repaired.OutputLine()) {
    text += line;
  }
  EXPECT_THAT(text, ::testing::HasSubstr("\nkept 0 jobs and 0 workers\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("the damaged database is now " + path + ".damaged-1\n"));
  Process daemon(Arguments("a", kAnyPort));
  EXPECT_NE(daemon.OutputLine(), "");
}

TEST_F(CoordinatorMainTest, DatabaseOfANewerReleaseIsRefusedAndLeftAsItIs) {
  const std::string path = folder_ + "/a/coordinator.db";
  {
    Process daemon(Arguments("a", kAnyPort));
    ASSERT_NE(daemon.OutputLine(), "");
    kill(daemon.pid(), SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  // Where SQLite's format has user_version and application_id, big-endian.
  const auto write = [&](std::streamoff at, int64_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
  };
  write(60, 99);
  write(68, coordinator::ApplicationId(99));
  const std::string before = *ReadFile(path);
  for (const char* task : {"", "--repair"}) {
    std::vector<std::string> arguments = Arguments("a", kAnyPort);
    if (*task != '\0') arguments = {"--state-dir", folder_ + "/a", task};
    Process refused(arguments);
    EXPECT_EQ(refused.Wait(), 1);
    golden_.Add(refused.Errors(), {path, "schema version 99", "Use a newer coordinator"});
  }
  EXPECT_EQ(*ReadFile(path), before);
}

TEST_F(CoordinatorMainTest, RepairAndBackUpMakeNoStateFolder) {
  for (const std::vector<std::string>& task :
       {std::vector<std::string>{"--repair"}, {"--backup", folder_ + "/copy.db"}}) {
    std::vector<std::string> arguments = {"--state-dir", folder_ + "/none"};
    arguments.insert(arguments.end(), task.begin(), task.end());
    Process process(arguments);
    EXPECT_EQ(process.Wait(), 1);
    golden_.Add(process.Errors(), {folder_ + "/none"});
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
  }
}

// Longer than lease and grace together: the cluster lives on, and so does its job.
TEST_F(CoordinatorMainTest, PauseOfTheProcessHarmsNoJob) {
  std::vector<std::string> arguments = Arguments("a", kAnyPort);
  for (const char* flag : {"--lease", "2", "--lost-rank-timeout", "2"}) arguments.push_back(flag);
  Process daemon(arguments);
  int port = 0;
  ASSERT_EQ(sscanf(daemon.OutputLine().c_str(), "listening grpc=%d", &port), 1);
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  const auto workers = v1alpha1::WorkerService::NewStub(channel);
  const auto jobs = v1alpha1::JobService::NewStub(channel);
  service::FakeWorker worker(*workers, "w0");
  worker.Register();
  v1alpha1::Job job;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(jobs->CreateJob(&context, service::TinyJob("gpt", 1), &job).ok());
  }
  worker.Prepared(worker.Assigned(), 0);
  v1alpha1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat();
  // A real process keeps its lease on the real clock, so its worker must send in real time.
  const auto beat_for = [&](absl::Duration duration) {
    for (const absl::Time end = absl::Now() + duration; absl::Now() < end;) {
      worker.Write(heartbeat);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  };
  beat_for(absl::Seconds(1));
  kill(daemon.pid(), SIGSTOP);
  beat_for(absl::Seconds(6));
  kill(daemon.pid(), SIGCONT);
  beat_for(absl::Seconds(2));
  grpc::ClientContext context;
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/gpt");
  ASSERT_TRUE(jobs->GetJob(&context, request, &job).ok());
  EXPECT_EQ(job.state(), v1alpha1::Job::RUNNING) << job.ShortDebugString();
  EXPECT_FALSE(job.has_first_failure());
}

TEST_F(CoordinatorMainTest, BadCommandLineIsExitCodeTwo) {
  Process daemon({"--no-such-flag"});
  EXPECT_EQ(daemon.Wait(), 2);
  golden_.Add(daemon.Errors(), {"--no-such-flag"});
}

}  // namespace
}  // namespace stretto
