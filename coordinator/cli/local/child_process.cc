// SPDX-License-Identifier: Apache-2.0

// Starts a child in its own process group, with a pipe from its output to a log, and a pidfd to
// wait on. Orphans of dead children are handed to us (we are their subreaper) and are ended at the
// end.

#include "coordinator/cli/local/child_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxOutput = 64 << 10;

// Runs between fork and exec: async-signal-safe calls only.
[[noreturn]] void Become(char* const* argv, pid_t parent, int null_fd, int output, int log) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(null_fd, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(argv[0], argv);
  _exit(127);
}

// Returns the processes whose parent we are, including dead ones.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  while (const dirent* entry = readdir(proc)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
    if (!stat.ok()) continue;
    // "PID (NAME) STATE PPID ...": the name may hold anything.
    const size_t name_end = stat->rfind(')');
    int parent = 0;
    if (name_end != std::string::npos &&
        std::sscanf(stat->c_str() + name_end + 1, " %*c %d", &parent) == 1 && parent == getpid()) {
      children.push_back(pid);
    }
  }
  closedir(proc);
  return children;
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::string& name,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& log_path) {
  const std::string& binary = arguments.front();
  if (access(binary.c_str(), X_OK) != 0) return ErrnoStatus(errno, absl::StrCat("run ", binary));
  ChildProcess child;
  child.name_ = name;
  child.log_path_ = log_path;
  child.log_ =
      FileDescriptor(open(log_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!child.log_.valid()) return ErrnoStatus(errno, absl::StrCat("open ", log_path));
  struct stat log_stat;
  if (fstat(child.log_.get(), &log_stat) == 0) child.log_start_ = log_stat.st_size;
  FileDescriptor null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_fd.valid()) return ErrnoStatus(errno, "open /dev/null");
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, absl::StrCat("pipe for ", name));
  child.output_ = FileDescriptor(pipe_fds[0]);
  FileDescriptor output(pipe_fds[1]);
  fcntl(child.output_.get(), F_SETFL, O_NONBLOCK);

  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  child.pid_ = fork();
  if (child.pid_ < 0) return ErrnoStatus(errno, absl::StrCat("fork for ", name));
  if (child.pid_ == 0) {
    Become(argv.data(), parent, null_fd.get(), output.get(), child.log_.get());
  }
  setpgid(child.pid_, child.pid_);  // on both sides, so that neither has to wait
  // glibc 2.36 declares pidfd_open without C linkage.
  child.exit_fd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.exit_fd_.valid()) {
    const int error = errno;
    kill(child.pid_, SIGKILL);
    waitpid(child.pid_, nullptr, 0);
    return ErrnoStatus(error, absl::StrCat("pidfd of ", name));
  }
  return child;
}

void ChildProcess::ReadOutput() {
  char buffer[4096];
  while (output_.valid()) {
    const ssize_t count = read(output_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      output_ = FileDescriptor();
      return;
    }
    const absl::string_view data(buffer, count);
    if (text_.size() < kMaxOutput) text_.append(data.data(), data.size());
    // A cluster that runs is not stopped because its log cannot be written.
    (void)WriteAll(log_.get(), data, log_path_);
  }
}

std::optional<std::string> ChildProcess::FindLine(const std::string& prefix) const {
  size_t start = 0;
  for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', start)) {
    if (text_.compare(start, prefix.size(), prefix) == 0) return text_.substr(start, end - start);
    start = end + 1;
  }
  return std::nullopt;
}

void ChildProcess::Signal(int signal) const {
  if (running()) kill(-pid_, signal);
}

bool ChildProcess::Reap() {
  if (wait_status_) return true;
  int status = 0;
  pid_t reaped;
  while ((reaped = waitpid(pid_, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (reaped != pid_) return false;
  wait_status_ = status;
  ReadOutput();
  // Ends the processes that remain in the child's group.
  kill(-pid_, SIGTERM);
  return true;
}

std::string ChildProcess::ExitText() const {
  const int status = wait_status_.value_or(0);
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(status));
}

std::string ChildProcess::LogTail(int lines) const {
  const auto log = ReadFile(log_path_);
  if (!log.ok()) return absl::StrCat("    ", log.status().message(), "\n");
  std::vector<std::string> all =
      absl::StrSplit(log->substr(std::min(log_start_, log->size())), '\n');
  if (!all.empty() && all.back().empty()) all.pop_back();
  const size_t first = std::cmp_greater(all.size(), lines) ? all.size() - lines : 0;
  std::string tail;
  for (size_t i = first; i < all.size(); ++i) absl::StrAppend(&tail, "    ", all[i], "\n");
  return tail.empty() ? "    (nothing was written to it)\n" : tail;
}

int EndOrphans(int grace_seconds) {
  std::map<pid_t, bool> seen;
  constexpr int kRoundsPerSecond = 50;
  for (int round = 0;; ++round) {
    const std::vector<pid_t> children = Children();
    if (children.empty()) return std::ssize(seen);
    for (const pid_t pid : children) {
      if (waitpid(pid, nullptr, WNOHANG) == pid) {
        seen.emplace(pid, true);
        continue;
      }
      const bool is_new = seen.emplace(pid, true).second;
      if (is_new) kill(pid, SIGTERM);
      if (round >= grace_seconds * kRoundsPerSecond) kill(pid, SIGKILL);
    }
    // Orphans may be handed to us at any moment and have no descriptor to wait on, so this polls.
    usleep(1'000'000 / kRoundsPerSecond);
  }
}

}  // namespace stretto::cli
