// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/local/up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/cli/base/interrupt.h"
#include "coordinator/cli/base/local_cluster.h"
#include "coordinator/cli/local/up_certificates.h"
#include "proto/base/files.h"
#include "proto/tls/files.h"
#include "tests/golden_messages.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Daemons made of shell. They write down that they ran and how they were stopped.
constexpr char kCoordinator[] = R"(#!/bin/bash
echo "coordinator $*" >> "$FAKE_DIR/events"
trap 'echo "coordinator stopped" >> "$FAKE_DIR/events"; exit 0' TERM
echo "coordinator log line" >&2
echo "listening grpc=4711 metrics=4712"
while true; do sleep 0.02; done
)";
constexpr char kWorker[] = R"(#!/bin/bash
echo "worker $*" >> "$FAKE_DIR/events"
trap 'echo "worker stopped" >> "$FAKE_DIR/events"; exit 0' TERM
echo "ready worker=$4 metrics=1$$"
while true; do sleep 0.02; done
)";

// Output that a test can wait for: the stream buffer tells when a text has appeared.
class WatchedBuffer final : public std::stringbuf {
 public:
  std::function<void()> on_sync;

 private:
  int sync() override {
    if (on_sync) on_sync();
    return 0;
  }
};

class UpTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/stretto-up-XXXXXX";
    dir_ = mkdtemp(pattern);
    setenv("FAKE_DIR", dir_.c_str(), 1);
    golden_.Hide(dir_, "FOLDER");
    options_.binary_dir = dir_;
    options_.state_dir = dir_ + "/state";
    options_.user_state_dir = dir_ + "/home";
    options_.listen = "127.0.0.1:0";
    Script("stretto-coordinator", kCoordinator);
    Script("stretto-worker", kWorker);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void Script(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
  }

  // As a daemon is given them.
  std::string TlsFlags(const std::string& holder) const {
    const std::string tls = dir_ + "/state/tls/";
    return "--tls-ca " + tls + "ca.crt --tls-certificate " + tls + holder + ".crt --tls-key " +
           tls + holder + ".key\n";
  }
  std::string Events() const { return ReadFile(dir_ + "/events").value_or(""); }

  ExitCode Run() { return RunUp(options_, terminal_, interrupt_); }
  // Runs `action` as soon as the cluster has been announced.
  void WhenUp(std::function<void()> action) {
    out_buffer_.on_sync = [this, action, done = false]() mutable {
      if (done || out_buffer_.str().find("Next") == std::string::npos) return;
      done = true;
      action();
    };
  }
  std::string out() const { return out_buffer_.str(); }
  std::string err() const { return err_.str(); }
  // What was written to standard error has each of `facts` in it; its words are those of
  // tests/golden/messages/stretto.txt. A shell's `sleep` may or may not be left at the end.
  void ExpectMessage(const std::vector<std::string>& facts) {
    const std::string text = std::regex_replace(err(), std::regex("pid [0-9]+"), "pid PID");
    golden_.Add(std::regex_replace(text, std::regex("ended [0-9]+ process[^\n]*\n"), ""), facts);
  }

  // Of the processes that a shell named in a file.
  static bool Alive(pid_t pid) { return kill(pid, 0) == 0; }
  pid_t PidIn(const std::string& file) const {
    return static_cast<pid_t>(std::atoi(ReadFile(dir_ + "/" + file).value_or("0").c_str()));
  }

  GoldenMessages golden_{"stretto"};
  std::string dir_;
  UpOptions options_;
  WatchedBuffer out_buffer_;
  std::ostream out_stream_{&out_buffer_};
  std::ostringstream err_;
  Terminal terminal_{.out = out_stream_, .err = err_};
  Interrupt interrupt_;
};

TEST_F(UpTest, WritesWhereMetricsAreForPrometheus) {
  options_.workers = 2;
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_THAT(
      ReadFile(options_.state_dir + "/prometheus-targets.json").value_or(""),
      testing::MatchesRegex("\\[\\{\"targets\": \\[\"127.0.0.1:4712\", \"127.0.0.1:1[0-9]+\", "
                            "\"127.0.0.1:1[0-9]+\"\\]\\}\\]\n"));
}

TEST_F(UpTest, StartsAllAndStopsWorkersBeforeTheCoordinator) {
  options_.workers = 2;
  options_.slots = 3;
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_THAT(out(), HasSubstr("coordinator  127.0.0.1:4711  http://127.0.0.1:4712/metrics\n"));
  EXPECT_THAT(out(), HasSubstr("worker-2     3 slots"));
  EXPECT_THAT(out(), HasSubstr("export STRETTO_COORDINATOR=127.0.0.1:4711\n"));
  const std::string events = Events();
  EXPECT_THAT(
      events,
      HasSubstr("coordinator --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --state-dir " +
                dir_ + "/state/coordinator " + TlsFlags("coordinator")));
  EXPECT_THAT(
      events,
      HasSubstr("worker --coordinator 127.0.0.1:4711 --name worker-1 --slots 3 --state-dir " +
                dir_ + "/state/worker-1 --data-root " + dir_ + "/state/data --checkpoint-root " +
                dir_ + "/state/checkpoints --metrics-listen 127.0.0.1:0 " +
                TlsFlags("worker-worker-1")));
  // One of them offers the machine's GPUs.
  EXPECT_THAT(events, HasSubstr(dir_ + "/state/checkpoints --metrics-listen 127.0.0.1:0 --nvml  " +
                                TlsFlags("worker-worker-2")));
  EXPECT_THAT(events, testing::EndsWith("worker stopped\nworker stopped\ncoordinator stopped\n"));
  ExpectMessage({"stopping", "stopped"});
}

TEST_F(UpTest, CertificatesAreMadeOnceAndFoundWhileItRuns) {
  const std::string folder = options_.state_dir + "/tls";
  std::string found;
  WhenUp([&] {
    found = FindLocalCluster(options_.user_state_dir, 4711);
    interrupt_.Raise();
  });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_EQ(found, folder);
  EXPECT_EQ(FindLocalCluster(options_.user_state_dir, 4711), "") << "it has ended";
  EXPECT_TRUE(std::filesystem::is_empty(options_.user_state_dir + "/local"));
  EXPECT_THAT(out(), HasSubstr("\ntls    " + folder + "\n"));
  EXPECT_THAT(out(), Not(HasSubstr("STRETTO_TLS_CA")));
  const auto check = [&](const std::string& name, tls::Role role) {
    return tls::CheckFiles(
        {folder + "/ca.crt", folder + "/" + name + ".crt", folder + "/" + name + ".key"}, role,
        absl::Now());
  };
  EXPECT_TRUE(check("coordinator", tls::Role::kCoordinator).ok());
  EXPECT_TRUE(check("worker-worker-1", tls::Role::kWorker).ok());
  const auto user = check(kUserOfUp, tls::Role::kUser);
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(tls::RoleIn(*user, ""), tls::UserRole::kAdmin);
  // A second time, with another worker and another name for the coordinator.
  const std::string index = *ReadFile(folder + "/index");
  EXPECT_TRUE(PrepareCertificates(folder, options_.listen, 1, absl::Now()).ok());
  EXPECT_EQ(*ReadFile(folder + "/index"), index);
  EXPECT_TRUE(PrepareCertificates(folder, "node.example:0", 2, absl::Now()).ok());
  EXPECT_THAT(*ReadFile(folder + "/index"),
              testing::ContainsRegex("coordinator [^\n]*,DNS:node.example\n[^\n]* "
                                     "worker-worker-2 [^\n]*\n$"));
  // Those that are due, and one that was lost.
  std::filesystem::remove(folder + "/user-admin.key");
  EXPECT_TRUE(PrepareCertificates(folder, "node.example:0", 2, absl::Now()).ok());
  EXPECT_TRUE(check(kUserOfUp, tls::Role::kUser).ok());
  EXPECT_TRUE(
      PrepareCertificates(folder, "node.example:0", 2, absl::Now() + absl::Hours(24 * 250)).ok());
  EXPECT_TRUE(tls::CheckFiles(
                  {folder + "/ca.crt", folder + "/coordinator.crt", folder + "/coordinator.key"},
                  tls::Role::kCoordinator, absl::Now() + absl::Hours(24 * 400))
                  .ok());
}

TEST_F(UpTest, WithoutAHomeTheCertificatesAreNamed) {
  options_.user_state_dir = "/proc/nowhere";
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_THAT(out(), HasSubstr("export STRETTO_TLS_CA=" + options_.state_dir +
                               "/tls/ca.crt STRETTO_TLS_CERTIFICATE=" + options_.state_dir +
                               "/tls/user-admin.crt STRETTO_TLS_KEY="));
}

TEST_F(UpTest, WithoutTlsNothingIsMadeOrGiven) {
  options_.no_tls = true;
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_THAT(Events(), Not(HasSubstr("--tls")));
  EXPECT_THAT(out(), HasSubstr("tls    none: everybody on this machine can run jobs\n"));
  EXPECT_FALSE(std::filesystem::exists(options_.state_dir + "/tls"));
}

TEST_F(UpTest, ADamagedCaStopsTheStart) {
  std::filesystem::create_directories(options_.state_dir + "/tls");
  std::ofstream(options_.state_dir + "/tls/ca.crt") << "rubbish";
  EXPECT_EQ(Run(), kError);
  ExpectMessage({"/state/tls/index"});
}

TEST_F(UpTest, SigintOfTheProcessStopsEverything) {
  SignalThread signals(interrupt_);
  WhenUp([] { kill(getpid(), SIGINT); });
  EXPECT_EQ(Run(), kOk) << err();
  EXPECT_THAT(Events(), testing::EndsWith("worker stopped\ncoordinator stopped\n"));
}

TEST_F(UpTest, DeathOfAChildIsReportedWithItsLogAndStopsTheRest) {
  Script("stretto-worker", R"(#!/bin/bash
echo "ready worker=$4 metrics=1"
while [ ! -e "$FAKE_DIR/die" ]; do sleep 0.02; done
echo "about to fail: disk on fire" >&2
exit 7
)");
  WhenUp([this] { std::ofstream(dir_ + "/die") << "now"; });
  EXPECT_EQ(Run(), kError);
  ExpectMessage({"worker-1 (pid ", "status 7", dir_ + "/state/logs/worker-1.log",
                 "    about to fail: disk on fire\n", "stopped\n"});
  EXPECT_THAT(Events(), testing::EndsWith("coordinator stopped\n"));
}

TEST_F(UpTest, AChildKilledBySignalIsNamedSo) {
  Script("stretto-coordinator", "#!/bin/bash\nkill -9 $$\n");
  EXPECT_EQ(Run(), kError);
  ExpectMessage({"coordinator (pid ", "signal 9 (Killed)"});
  EXPECT_THAT(Events(), Not(HasSubstr("worker")));
}

TEST_F(UpTest, OldLogLinesAreNotBlamedOnThisRun) {
  std::filesystem::create_directories(options_.state_dir + "/logs");
  std::ofstream(options_.state_dir + "/logs/coordinator.log") << "an old failure\n";
  Script("stretto-coordinator", "#!/bin/bash\nexit 1\n");
  EXPECT_EQ(Run(), kError);
  EXPECT_THAT(err(), Not(HasSubstr("an old failure")));
  ExpectMessage({"coordinator (pid ", "status 1", "logs/coordinator.log"});
}

TEST_F(UpTest, ADaemonThatNeverGetsReadyIsGivenUp) {
  Script("stretto-worker", "#!/bin/bash\necho stuck >&2\nwhile true; do sleep 0.02; done\n");
  options_.start_timeout = absl::Milliseconds(200);
  EXPECT_EQ(Run(), kError);
  ExpectMessage({"worker-1", "0.2s", "logs/worker-1.log", "    stuck\n"});
}

TEST_F(UpTest, ADaemonThatIgnoresSigtermIsKilledAfterTheGrace) {
  Script("stretto-worker",
         "#!/bin/bash\ntrap '' TERM\necho ready worker=x\nwhile true; do sleep 0.02; done\n");
  options_.stop_grace = absl::Milliseconds(100);
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk);
  ExpectMessage({"killing worker-1"});
}

TEST_F(UpTest, NoTrainerIsLeftBehind) {
  // A worker that dies at once and leaves a child in a session of its own.
  Script("stretto-worker", R"(#!/bin/bash
setsid bash -c 'echo $$ > "$FAKE_DIR/trainer"; while true; do sleep 0.02; done' &
while [ ! -s "$FAKE_DIR/trainer" ]; do sleep 0.02; done
echo "ready worker=$4 metrics=1"
trap 'exit 0' TERM
while true; do sleep 0.02; done
)");
  WhenUp([this] { interrupt_.Raise(); });
  EXPECT_EQ(Run(), kOk);
  const pid_t trainer = PidIn("trainer");
  ASSERT_GT(trainer, 0);
  EXPECT_FALSE(Alive(trainer));
  golden_.Add(std::regex_replace(err(), std::regex("[0-9]+ process(es)?"), "N processes"),
              {"ended N processes"});
}

TEST_F(UpTest, MissingBinaryIsNamed) {
  std::filesystem::remove(dir_ + "/stretto-worker");
  EXPECT_EQ(Run(), kError);
  ExpectMessage({dir_ + "/stretto-worker", "No such file or directory"});
  EXPECT_THAT(Events(), HasSubstr("coordinator stopped\n"));
}

TEST_F(UpTest, ASecondUpOnTheSameStateFolderIsRefused) {
  std::ostringstream second_out, second_err;
  ExitCode second = kOk;
  WhenUp([&] {
    Terminal terminal{.out = second_out, .err = second_err};
    UpOptions options = options_;
    // In a process of its own, for RunUp ends all children of its process.
    std::thread([&] {
      const pid_t pid = fork();
      if (pid == 0) {
        Interrupt none;
        const ExitCode code = RunUp(options, terminal, none);
        std::ofstream(dir_ + "/second") << second_err.str();
        _exit(code);
      }
      int status = 0;
      waitpid(pid, &status, 0);
      second = static_cast<ExitCode>(WEXITSTATUS(status));
    }).join();
    interrupt_.Raise();
  });
  EXPECT_EQ(Run(), kOk);
  EXPECT_EQ(second, kError);
  golden_.Add(ReadFile(dir_ + "/second").value_or(""), {dir_ + "/state", "--state-dir"});
}

TEST_F(UpTest, BadNumbersAreUsageErrors) {
  options_.workers = 0;
  EXPECT_EQ(Run(), kUsage);
  ExpectMessage({"--workers", "0", "1"});
}

}  // namespace
}  // namespace stretto::cli
