// SPDX-License-Identifier: Apache-2.0
#pragma once
// A child process of a test, with its output in files.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stretto::integration {

// Far beyond what anything takes; a test that meets it fails.
inline constexpr absl::Duration kDeadline = absl::Seconds(60);

// Killed and reaped with this object. One thread.
class Process {
 public:
  // `output` names the files: OUTPUT.out and OUTPUT.err, appended to. `core` binds it to one core
  // of the machine; -1 leaves it free. A program that cannot be started fails the test.
  Process(const std::vector<std::string>& argv, const std::string& output, int core = -1);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  bool running();
  // Exit code, or minus the signal. Fails the test and kills the process at the deadline.
  int Wait(absl::Duration timeout = kDeadline);
  int Kill();  // signal 9, and wait

  // What this process wrote so far.
  std::string out() const;
  std::string err() const;
  // Waits for a whole line of stdout that contains `text`; empty, and the test fails, when it ends
  // without one.
  std::string AwaitLine(const std::string& text);

 private:
  const std::string name_;
  const std::string output_;
  size_t out_start_ = 0, err_start_ = 0;  // what earlier processes left there
  pid_t pid_ = 0;
  std::optional<int> exit_;
};

// True until the process has ended; a zombie has.
bool IsRunning(pid_t pid);
// Processes whose parent is the calling one.
std::vector<pid_t> Children();
// Kills and reaps all of them, and what they leave to us. The caller must be their sub-reaper.
void KillChildren();

// Between two looks at something that nobody announces.
void Pause();

}  // namespace stretto::integration
