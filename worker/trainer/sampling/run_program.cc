// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/sampling/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

constexpr size_t kMostOutput = size_t{1} << 20;
constexpr size_t kShown = 400;  // bytes of an error
constexpr int kLook = 100;      // milliseconds between looks at `given_up`

// Starts the program with its output to a descriptor, and returns its process id.
absl::StatusOr<pid_t> Start(const std::vector<std::string>& command, int output) {
  std::vector<std::string> strings = command;
  std::vector<char*> arguments;
  for (std::string& text : strings) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_adddup2(&files, output, 2);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  sigset_t none, all;  // the threads of a trainer block signals
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start ", command[0]));
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 10);
  return pid;
}

// Reads until the program closes its output, or kills it.
std::string ReadAll(int from, pid_t pid, const std::atomic<bool>& given_up) {
  std::string output;
  char block[4096];
  bool killed = false;
  while (true) {
    if (!killed && (given_up.load() || output.size() > kMostOutput)) {
      ::kill(pid, SIGKILL);
      killed = true;
    }
    pollfd entry = {.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kLook) <= 0) continue;
    const ssize_t read = ::read(from, block, sizeof(block));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return output;
    output.append(block, static_cast<size_t>(read));
  }
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& command,
                                       const std::atomic<bool>& given_up) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  const FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Start(command, to.get()));
  to = FileDescriptor();
  const std::string output = ReadAll(from.get(), pid, given_up);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (given_up.load()) return absl::CancelledError("given up");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  absl::string_view end = output;
  end.remove_prefix(end.size() - std::min(end.size(), kShown));
  return absl::InternalError(
      absl::StrCat(command[0],
                   WIFSIGNALED(status) ? absl::StrCat(" ended by signal ", WTERMSIG(status))
                                       : absl::StrCat(" ended with code ", WEXITSTATUS(status)),
                   ": ", absl::StripTrailingAsciiWhitespace(end)));
}

}  // namespace stretto::trainer
