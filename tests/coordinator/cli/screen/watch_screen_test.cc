// SPDX-License-Identifier: Apache-2.0

// `stretto job watch` as people run it, on a terminal of its own, against a fake coordinator.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Far beyond what anything takes; a test that meets it fails.
constexpr absl::Duration kDeadline = absl::Seconds(60);

// `stretto ARGUMENTS` with a terminal. Killed and reaped with this object.
class OnTerminal {
 public:
  OnTerminal(const std::vector<std::string>& arguments, int columns, int rows,
             const std::vector<std::string>& more_variables = {}) {
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    int master = -1, slave = -1;
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
    master_ = FileDescriptor(master);
    slave_ = FileDescriptor(slave);
    for (const int fd : {master, slave}) EXPECT_EQ(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
    EXPECT_EQ(tcgetattr(slave, &before_), 0);
    const std::string program = STRETTO_BINARY_DIR "/stretto";
    std::vector<std::string> variables = more_variables;  // the first of a name counts
    variables.insert(variables.end(), {"TERM=xterm", "LANG=C.UTF-8", "HOME=/nowhere"});
    // The suppressions of the thread sanitizer hold for the program too.
    if (const char* options = std::getenv("TSAN_OPTIONS"); options != nullptr) {
      variables.push_back(absl::StrCat("TSAN_OPTIONS=", options));
    }
    std::vector<const char*> argv = {program.c_str()}, environment;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    for (const std::string& variable : variables) environment.push_back(variable.c_str());
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {  // async-signal-safe calls only
      login_tty(slave);
      execve(argv[0], const_cast<char**>(argv.data()), const_cast<char**>(environment.data()));
      _exit(127);
    }
  }
  ~OnTerminal() {
    if (!waited_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  // All that was written so far.
  const std::string& output() const { return output_; }
  // The lines of the newest whole picture, without trailing blanks.
  std::vector<std::string> Picture() const {
    const size_t end = output_.rfind("\x1b[J");
    const size_t begin = end == std::string::npos ? end : output_.rfind("\x1b[H", end);
    if (begin == std::string::npos) return {};
    std::string frame = output_.substr(begin + 3, end - begin - 3);
    std::vector<std::string> lines;
    for (absl::string_view line : absl::StrSplit(frame, "\r\n")) {
      std::string plain;
      for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\x1b') {
          i = line.find_first_of("mK", i);
        } else {
          plain += line[i];
        }
      }
      lines.push_back(plain);
    }
    return lines;
  }
  std::string Text() const { return absl::StrJoin(Picture(), "\n"); }

  // Reads until `done` holds; fails the test at the deadline, or when the program ends.
  template <class Done>
  void Await(const std::string& what, Done done) {
    const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
    while (!done()) {
      const bool late = Clock::Real().Monotonic() > deadline;
      if (late || !Read()) {
        FAIL() << (late ? "no " : "ended before ") << what << " in:\n" << output_;
      }
    }
  }
  void AwaitText(const std::string& text) {
    Await(text, [&] { return absl::StrContains(Text(), text); });
  }
  void Type(const std::string& keys) {
    EXPECT_EQ(write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void Resize(int columns, int rows) {
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    EXPECT_EQ(ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  }
  void Signal(int signal) const { kill(pid_, signal); }
  // Exit code, or minus the signal; reads what is still written.
  int Wait() {
    const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::Real().Monotonic() > deadline) {
        ADD_FAILURE() << "does not end:\n" << output_;
        return -1;
      }
      Read();
    }
    waited_ = true;
    while (Read(0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // The terminal is as it was: main screen, cursor, echo and lines.
  void ExpectRestored() const {
    termios after = {};
    ASSERT_EQ(tcgetattr(slave_.get(), &after), 0);
    EXPECT_EQ(after.c_lflag, before_.c_lflag);
    EXPECT_EQ(after.c_iflag, before_.c_iflag);
    for (int i = 0; i < NCCS; ++i) EXPECT_EQ(after.c_cc[i], before_.c_cc[i]) << i;
    const auto last = [&](const char* code) { return output_.rfind(code); };
    ASSERT_NE(last("\x1b[?1049h"), std::string::npos);
    EXPECT_GT(last("\x1b[?1049l") + 1, last("\x1b[?1049h") + 1);
    EXPECT_GT(last("\x1b[?25h") + 1, last("\x1b[?25l") + 1);
    EXPECT_THAT(After(), Not(HasSubstr("\x1b[H")));
  }
  // What stands on the main screen afterwards.
  std::string After() const { return output_.substr(output_.rfind("\x1b[?1049l") + 8); }

 private:
  // False when nothing came within `timeout_ms`, where that is 0, or the terminal is gone.
  bool Read(int timeout_ms = 100) {
    pollfd ready = {master_.get(), POLLIN, 0};
    if (poll(&ready, 1, timeout_ms) == 0) return timeout_ms > 0;
    char buffer[4096];
    const ssize_t count = read(master_.get(), buffer, sizeof buffer);
    if (count > 0) output_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  FileDescriptor master_, slave_;
  termios before_ = {};
  pid_t pid_ = 0;
  bool waited_ = false;
  std::string output_;
};

using Arguments = std::vector<std::string>;

class WatchScreenTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    Job job = MakeJob("gpt", Job::RUNNING, 2);
    job.set_uid("u");
    job.add_placement()->set_worker("workers/worker-1");
    jobs_.jobs = {job};
    jobs_.watch = [this, job](const v1alpha1::WatchJobRequest& request,
                              grpc::ServerContext* context, WatchWriter* writer) {
      Write(writer, job);
      for (int64_t step = request.after_step() + 1; step <= 2; ++step) WriteStep(writer, step);
      while (!context->IsCancelled() && !finish_) std::this_thread::yield();
      if (!finish_) return grpc::Status::CANCELLED;
      WriteStep(writer, 3);
      Write(writer, MakeJob("gpt", end_state_, 3));
      return grpc::Status::OK;
    };
  }
  void TearDown() override {
    finish_ = true;
    CommandsTest::TearDown();
  }
  std::vector<std::string> Watch() const {
    return {"job", "watch", "gpt", "--coordinator", absl::StrCat("127.0.0.1:", port_)};
  }

  std::atomic<bool> finish_ = false;
  Job::State end_state_ = Job::SUCCEEDED;
};

TEST_F(WatchScreenTest, FillsTheTerminalFollowsItsSizeAndLeavesAtQ) {
  OnTerminal stretto(Watch(), 80, 24);
  stretto.AwaitText("0.5s left");  // known from the second step on, a picture later
  EXPECT_EQ(stretto.Picture().size(), 24u);
  EXPECT_THAT(stretto.Picture()[0], StartsWith("job gpt  RUNNING  step 2/3  0.5s left"));
  EXPECT_THAT(stretto.Text(), HasSubstr("worker-1"));
  EXPECT_THAT(stretto.output(), HasSubstr("\x1b[32mRUNNING"));
  stretto.Resize(132, 40);
  stretto.Await("a larger picture", [&] { return stretto.Picture().size() == 40; });
  stretto.Resize(50, 10);
  stretto.Await("a smaller picture", [&] { return stretto.Picture().size() == 10; });
  stretto.Type("xq");
  EXPECT_EQ(stretto.Wait(), kDetached);
  stretto.ExpectRestored();
  EXPECT_THAT(stretto.After(), StartsWith("detached: job gpt continues\r\n"));
}

TEST_F(WatchScreenTest, CtrlCDetaches) {
  OnTerminal stretto(Watch(), 80, 24);
  stretto.AwaitText("step 2/3");
  stretto.Type("\x03");
  EXPECT_EQ(stretto.Wait(), kDetached);
  stretto.ExpectRestored();
}

TEST_F(WatchScreenTest, SignalsRestoreTheTerminal) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    OnTerminal stretto(Watch(), 80, 24);
    stretto.AwaitText("step 2/3");
    stretto.Signal(signal);
    EXPECT_EQ(stretto.Wait(), kDetached);
    stretto.ExpectRestored();
  }
}

TEST_F(WatchScreenTest, TheEndIsASummaryOnTheMainScreen) {
  end_state_ = Job::FAILED;
  OnTerminal stretto(Watch(), 80, 24);
  stretto.AwaitText("step 2/3");
  finish_ = true;
  EXPECT_EQ(stretto.Wait(), kJobFailed);
  stretto.ExpectRestored();
  EXPECT_THAT(stretto.After(), StartsWith("job gpt \x1b[31mFAILED\x1b[0m after 3 of 3 steps\r\n"));
}

TEST_F(WatchScreenTest, ARefusalRestoresTheTerminal) {
  jobs_.watch = [](const auto&, grpc::ServerContext*, WatchWriter*) {
    return Refusal(grpc::NOT_FOUND, "jobs/gpt does not exist", "JOB_NOT_FOUND");
  };
  OnTerminal stretto(Watch(), 80, 24);
  EXPECT_EQ(stretto.Wait(), kError);
  stretto.ExpectRestored();
  EXPECT_EQ(stretto.After(), "error: jobs/gpt does not exist\r\n");
}

TEST_F(WatchScreenTest, ARestartedCoordinatorIsSaidAndFollowed) {
  OnTerminal stretto(Watch(), 160, 30);
  stretto.AwaitText("step 2/3");
  StopServer();
  stretto.AwaitText("lost the coordinator at 127.0.0.1:");
  StartServer();
  stretto.AwaitText("reconnected to 127.0.0.1:");
  finish_ = true;
  EXPECT_EQ(stretto.Wait(), kOk);
  stretto.ExpectRestored();
}

TEST_F(WatchScreenTest, NoColorAndAnotherLocaleArePlain) {
  OnTerminal stretto(Watch(), 80, 24, {"NO_COLOR=1", "LANG=C"});
  stretto.AwaitText("step 2/3");
  EXPECT_THAT(stretto.output(), Not(HasSubstr("mRUNNING")));
  for (const char c : stretto.output()) ASSERT_GE(c, 0);
  stretto.Type("q");
  EXPECT_EQ(stretto.Wait(), kDetached);
  stretto.ExpectRestored();
}

TEST_F(WatchScreenTest, ADumbTerminalGetsLines) {
  finish_ = true;
  OnTerminal stretto(Watch(), 80, 24, {"TERM=dumb"});
  EXPECT_EQ(stretto.Wait(), kOk);
  EXPECT_THAT(stretto.output(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(stretto.output(), StartsWith("job gpt RUNNING\r\nstep 1/3"));
}

class LiveScreenTest : public WatchScreenTest {
 protected:
  Arguments With(Arguments arguments) const {
    arguments.insert(arguments.end(), {"--coordinator", absl::StrCat("127.0.0.1:", port_)});
    return arguments;
  }
};

TEST_F(LiveScreenTest, TopFillsTheTerminalFollowsTheClusterAndLeavesAtQ) {
  std::atomic<int> calls = 0;
  jobs_.listed = [&] {
    if (++calls == 3) jobs_.jobs[0].mutable_progress()->set_steps(3);
  };
  OnTerminal stretto(With({"top"}), 100, 24);
  stretto.AwaitText("q quits");
  EXPECT_THAT(stretto.Text(), HasSubstr("Workers  1 ready"));
  EXPECT_THAT(stretto.Text(), HasSubstr("2/3"));
  stretto.AwaitText("3/3");  // the next look
  stretto.Resize(40, 6);
  stretto.Await("a smaller picture", [&] { return stretto.Picture().size() <= 6; });
  for (const std::string& line : stretto.Picture())
    EXPECT_LE(line.find_last_not_of('\r') + 1, 40u) << line;
  stretto.Type("q");
  EXPECT_EQ(stretto.Wait(), kOk);
  stretto.ExpectRestored();
  EXPECT_EQ(stretto.After(), "");
}

TEST_F(LiveScreenTest, AWatchedListSaysThatTheCoordinatorIsAway) {
  OnTerminal stretto(With({"job", "list", "-w"}), 160, 24);
  stretto.AwaitText("RUNNING");
  StopServer();
  stretto.AwaitText("lost the coordinator at 127.0.0.1:");
  StartServer();
  stretto.AwaitText("reconnected to 127.0.0.1:");
  stretto.Type("\x03");
  EXPECT_EQ(stretto.Wait(), kOk);
  stretto.ExpectRestored();
}

TEST_F(LiveScreenTest, OnceIsNoPicture) {
  OnTerminal stretto(With({"top", "--once"}), 100, 24);
  EXPECT_EQ(stretto.Wait(), kOk);
  EXPECT_THAT(stretto.output(), Not(HasSubstr("\x1b[?1049h")));
  EXPECT_THAT(stretto.output(), HasSubstr("Slots    "));
}

}  // namespace
}  // namespace stretto::cli
