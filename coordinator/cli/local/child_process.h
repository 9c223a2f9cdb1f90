// SPDX-License-Identifier: Apache-2.0
#pragma once
// One child of `stretto up`: a daemon with its log.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto::cli {

// The child leads a process group of its own, so that Ctrl-C at the terminal reaches only us, and
// gets SIGTERM when the thread that started it dies. Its stdout is a pipe to us, its stderr is
// appended to the log. Must be reaped (Reap returned true) before it is destroyed. One thread.
class ChildProcess {
 public:
  // Errors: NotFound or PermissionDenied (the binary), what opening the log gives, Unavailable
  // (fork).
  static absl::StatusOr<ChildProcess> Start(const std::string& name,
                                            const std::vector<std::string>& arguments,
                                            const std::string& log_path);

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const std::string& log_path() const { return log_path_; }
  bool running() const { return !wait_status_; }
  // Readable when it has ended, and when it has written.
  int exit_fd() const { return exit_fd_.get(); }
  int output_fd() const { return output_.get(); }  // -1 after its end

  // Reads what is there, without waiting; the text also goes to the log.
  void ReadOutput();
  // The first complete line of output that starts with `prefix`.
  std::optional<std::string> FindLine(const std::string& prefix) const;

  // To its whole process group.
  void Signal(int signal) const;
  // True when it has ended; does not wait.
  bool Reap();
  // "exited with status 3", "was killed by signal 9 (Killed)". After Reap.
  std::string ExitText() const;
  // The last lines this child wrote to its log, each indented by four blanks.
  std::string LogTail(int lines) const;

 private:
  std::string name_;
  std::string log_path_;
  size_t log_start_ = 0;  // what earlier runs left in the log
  pid_t pid_ = -1;
  FileDescriptor exit_fd_;
  FileDescriptor output_;
  FileDescriptor log_;
  std::string text_;  // of stdout, bounded
  std::optional<int> wait_status_;
};

// Ends what our children left to us (we are their sub-reaper): SIGTERM, SIGKILL after
// `grace_seconds`. Returns how many there were.
int EndOrphans(int grace_seconds);

}  // namespace stretto::cli
