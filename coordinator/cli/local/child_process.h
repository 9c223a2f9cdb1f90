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

// The child leads its own process group, so Ctrl-C at the terminal reaches only us, and it gets
// SIGTERM when the thread that started it dies. Its stdout is a pipe to us; its stderr is appended
// to the log. Reap must have returned true before the destructor runs. One thread.
class ChildProcess {
 public:
  // Errors: NotFound or PermissionDenied (the binary), errors of opening the log, Unavailable
  // (fork).
  static absl::StatusOr<ChildProcess> Start(const std::string& name,
                                            const std::vector<std::string>& arguments,
                                            const std::string& log_path);

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const std::string& log_path() const { return log_path_; }
  bool running() const { return !wait_status_; }
  // exit_fd is readable once the child has ended, output_fd when it has written.
  int exit_fd() const { return exit_fd_.get(); }
  int output_fd() const { return output_.get(); }  // -1 after its end

  // Reads the available output without waiting, and appends it to the log.
  void ReadOutput();
  // Returns the first complete line of output that starts with `prefix`.
  std::optional<std::string> FindLine(const std::string& prefix) const;

  // Sends the signal to the whole process group.
  void Signal(int signal) const;
  // Returns true if the child has ended; does not wait.
  bool Reap();
  // "exited with status 3", "was killed by signal 9 (Killed)". After Reap.
  std::string ExitText() const;
  // Returns the last lines that this child wrote to its log, each indented by four blanks.
  std::string LogTail(int lines) const;

 private:
  std::string name_;
  std::string log_path_;
  size_t log_start_ = 0;  // size of the log before this run
  pid_t pid_ = -1;
  FileDescriptor exit_fd_;
  FileDescriptor output_;
  FileDescriptor log_;
  std::string text_;  // of stdout, bounded
  std::optional<int> wait_status_;
};

// Ends the processes that our children left to us (we are their subreaper) with SIGTERM, and with
// SIGKILL after `grace_seconds`. Returns how many there were.
int EndOrphans(int grace_seconds);

}  // namespace stretto::cli
