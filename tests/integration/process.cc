// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"

namespace stretto::integration {
namespace {

struct Stat {
  char state = 'X';
  pid_t parent = 0;
};

std::optional<Stat> StatOf(pid_t pid) {
  const auto text = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!text.ok()) return std::nullopt;
  // "PID (NAME) STATE PPID ...": the name may hold anything.
  const size_t name_end = text->rfind(')');
  Stat stat;
  if (name_end == std::string::npos ||
      std::sscanf(text->c_str() + name_end + 1, " %c %d", &stat.state, &stat.parent) != 2) {
    return std::nullopt;
  }
  return stat;
}

std::string TextOf(const std::string& path) { return ReadFile(path).value_or(""); }

std::string After(const std::string& text, size_t start) {
  return text.substr(std::min(start, text.size()));
}

[[noreturn]] void RunChild(std::vector<char*> argv, const std::string& output, int core) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (core >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND;
  dup2(open("/dev/null", O_RDONLY), 0);
  dup2(open((output + ".out").c_str(), kFlags, 0600), 1);
  dup2(open((output + ".err").c_str(), kFlags, 0600), 2);
  execv(argv[0], argv.data());
  std::perror(argv[0]);
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const std::string& output, int core)
    : name_(argv[0]),
      output_(output),
      out_start_(TextOf(output + ".out").size()),
      err_start_(TextOf(output + ".err").size()) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) RunChild(pointers, output, core);
  EXPECT_GT(pid_, 0) << "cannot start " << name_;
}

Process::~Process() {
  if (running()) Kill();
}

void Process::Signal(int signal) const {
  if (!exit_.has_value()) kill(pid_, signal);
}

bool Process::running() {
  int status = 0;
  if (exit_.has_value()) return false;
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return !exit_.has_value();
}

int Process::Wait(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Monotonic() + timeout;
  while (running()) {
    if (Clock::Real().Monotonic() > deadline) {
      ADD_FAILURE() << name_ << " (pid " << pid_ << ") still runs after " << timeout << "\n"
                    << out() << err();
      Signal(SIGKILL);
    }
    Pause();
  }
  return *exit_;
}

int Process::Kill() {
  Signal(SIGKILL);
  return Wait();
}

std::string Process::out() const { return After(TextOf(output_ + ".out"), out_start_); }
std::string Process::err() const { return After(TextOf(output_ + ".err"), err_start_); }

std::string Process::AwaitLine(const std::string& text) {
  const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
  while (true) {
    const bool last = !running() || Clock::Real().Monotonic() > deadline;
    const std::string all = out();
    size_t begin = 0;
    for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', begin)) {
      const std::string line = all.substr(begin, end - begin);
      if (line.find(text) != std::string::npos) return line;
      begin = end + 1;
    }
    if (last) break;
    Pause();
  }
  ADD_FAILURE() << name_ << " wrote no line with \"" << text << "\":\n" << out() << err();
  return "";
}

bool IsRunning(pid_t pid) {
  const std::optional<Stat> stat = StatOf(pid);
  return stat.has_value() && stat->state != 'Z' && stat->state != 'X';
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  while (const dirent* entry = readdir(proc)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const std::optional<Stat> stat = StatOf(pid);
    if (stat.has_value() && stat->parent == getpid()) children.push_back(pid);
  }
  closedir(proc);
  return children;
}

void KillChildren() {
  for (std::vector<pid_t> all = Children(); !all.empty(); all = Children()) {
    for (const pid_t pid : all) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
}

void Pause() { usleep(10'000); }

}  // namespace stretto::integration
