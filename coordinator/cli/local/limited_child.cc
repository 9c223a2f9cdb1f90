// SPDX-License-Identifier: Apache-2.0

// Input and output are files in memory. The child limits itself by rlimits before it runs the
// program; the parent waits for its end, the deadline or an interrupt.
#include "coordinator/cli/local/limited_child.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/deadline.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxMessage = 4096;

// A file in memory. Unlike a pipe it cannot fill up while the other side waits.
absl::StatusOr<FileDescriptor> MemoryFile(const std::string& content) {
  FileDescriptor file(memfd_create("stretto", MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "memfd_create");
  RETURN_IF_ERROR(WriteAll(file.get(), content, "memfd"));
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string Content(const FileDescriptor& file, size_t most) {
  std::string text(std::min<size_t>(lseek(file.get(), 0, SEEK_END), most), 0);
  const ssize_t read = pread(file.get(), text.data(), text.size(), 0);
  text.resize(std::max<ssize_t>(read, 0));
  return text;
}

void Limit(int resource, int64_t most) {
  const rlimit limit = {static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

[[noreturn]] void Exec(char* const* arguments, const int (&files)[3], const ChildLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int fd = 0; fd < 3; ++fd) dup2(files[fd], fd);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_CPU, limits.cpu_seconds);
  Limit(RLIMIT_AS, limits.memory_bytes);
  Limit(RLIMIT_FSIZE, limits.output_bytes);
  execv(arguments[0], arguments);
  _exit(127);
}

// Waits for the process to end; kills it at the deadline and when interrupted.
absl::Status Await(pid_t pid, const ChildLimits& limits, Interrupt& interrupt, int* status) {
  const FileDescriptor ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const Deadline deadline(limits.deadline);
  absl::Status result;
  while (true) {
    pollfd fds[] = {{ended.get(), POLLIN, 0}, {interrupt.fd(), POLLIN, 0}};
    const int64_t left = absl::ToInt64Milliseconds(deadline.Left());
    const int ready = left <= 0 ? 0 : poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (interrupt.raised()) {
      result = absl::CancelledError("interrupted");
    } else if (ready == 0) {
      result = absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(limits.deadline)));
    }
    if (!result.ok() || ready < 0) kill(pid, SIGKILL);
    break;
  }
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
  }
  return result;
}

}  // namespace

absl::StatusOr<std::string> RunLimited(const std::vector<std::string>& command,
                                       const std::string& input, const ChildLimits& limits,
                                       Interrupt& interrupt) {
  const std::string& path = command.front();
  if (access(path.c_str(), X_OK) != 0) return ErrnoStatus(errno, path);
  ASSIGN_OR_RETURN(const FileDescriptor in, MemoryFile(input));
  ASSIGN_OR_RETURN(const FileDescriptor out, MemoryFile(""));
  ASSIGN_OR_RETURN(const FileDescriptor err, MemoryFile(""));
  const int files[3] = {in.get(), out.get(), err.get()};
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, absl::StrCat("fork for ", path));
  if (pid == 0) Exec(arguments.data(), files, limits);
  int status = 0;
  const absl::Status waited = Await(pid, limits, interrupt, &status);
  if (!waited.ok()) return absl::Status(waited.code(), absl::StrCat(path, ": ", waited.message()));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return Content(out, limits.output_bytes);
  }
  const std::string message(absl::StripAsciiWhitespace(Content(err, kMaxMessage)));
  const std::string end =
      WIFSIGNALED(status)
          ? absl::StrCat("was killed by signal ", WTERMSIG(status), " (",
                         strsignal(WTERMSIG(status)), "); the limits are ", limits.cpu_seconds,
                         " s of CPU time and ", limits.memory_bytes >> 30, " GiB of memory")
          : absl::StrCat("exited with status ", WEXITSTATUS(status));
  return absl::InternalError(
      absl::StrCat(path, ": ", message.empty() ? end : absl::StrCat(message, " (", end, ")")));
}

}  // namespace stretto::cli
