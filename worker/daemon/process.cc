// SPDX-License-Identifier: Apache-2.0

// A child is forked and makes itself what was asked for: a session of its own, output to a
// descriptor, default signals, a core, fewer rights. Between fork and execution it makes system
// calls only, because other threads of this process may have held any lock. A process is identified
// by pid, start time and boot, read from /proc, and watched and reaped by a pidfd. An adopted
// process is not our child, so its exit status is unknown.

#include "worker/daemon/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

const std::string& BootId() {
  static const std::string id = [] {
    absl::StatusOr<std::string> text = ReadFile("/proc/sys/kernel/random/boot_id");
    return text.ok() ? std::string(absl::StripSuffix(*text, "\n")) : std::string("unknown");
  }();
  return id;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What the child reads, made before the fork.
struct ChildPlan {
  const char* binary;
  char* const* args;
  char* const* env;
  int output, group, core;
  const TrainerRights* rights;  // nullptr: those of this process
};

// Every signal has its default action, and none is blocked.
void ResetSignals() {
  constexpr int kSignals = 64;
  const uint64_t action[4] = {};  // the kernel's struct sigaction: the default, no flags, no mask
  for (int signal = 1; signal <= kSignals; ++signal)
    ::syscall(SYS_rt_sigaction, signal, action, nullptr, sizeof(uint64_t));  // not of SIGKILL
  const uint64_t none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
}

// Output, and nothing of ours behind it once the program is executed.
int ArrangeFiles(int output) {
  if (::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return errno;
  const auto null_file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY));
  if (null_file < 0 || ::dup2(null_file, 0) < 0) return errno;
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return 0;
  // A kernel before 5.11. All descriptors of this program have the flag, those of libraries may
  // not.
  constexpr int kMostFiles = 1 << 16;
  for (int file = 3; file < kMostFiles; ++file) ::syscall(SYS_fcntl, file, F_SETFD, FD_CLOEXEC);
  return 0;
}

void BindTo(int core) {
  if (core < 0 || core >= CPU_SETSIZE) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ::syscall(SYS_sched_setaffinity, 0, sizeof(one), &one);  // without it, it runs more slowly
}

// Executes the program, or returns what failed.
FailedStep Execute(const ChildPlan& plan) {
  if (::syscall(SYS_setsid) < 0) return {"begin a session", errno};
  if (const int error = ArrangeFiles(plan.output)) return {"arrange its files", error};
  if (plan.group >= 0 && ::write(plan.group, "0", 1) != 1) return {"join its control group", errno};
  BindTo(plan.core);
  if (plan.rights != nullptr) {
    if (const FailedStep failed = KeepOnly(*plan.rights); failed.what != nullptr) return failed;
  }
  ResetSignals();
  ::syscall(SYS_execve, plan.binary, plan.args, plan.env);
  return {"", errno};
}

// Forks, and returns the child once it has executed its program. The text of a failed step is the
// same address in both processes.
absl::StatusOr<pid_t> Fork(const ChildPlan& plan) {
  const std::string what = absl::StrCat("start trainer ", plan.binary);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, what);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t child = ::_Fork();
  if (child < 0) return ErrnoStatus(errno, what);
  if (child == 0) {
    const FailedStep failed = Execute(plan);
    [[maybe_unused]] const ssize_t n = ::write(write_end.get(), &failed, sizeof(failed));
    ::_exit(127);
  }
  write_end = FileDescriptor();
  FailedStep failed;
  ssize_t size = 0;
  do {
    size = ::read(read_end.get(), &failed, sizeof(failed));
  } while (size < 0 && errno == EINTR);
  if (size != sizeof(failed)) return child;  // executed, or killed before, which its end shows
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ErrnoStatus(failed.error,
                     absl::StrCat(what, failed.what[0] == '\0' ? "" : ": ", failed.what));
}

// Another user has another home, or none.
void ReplaceHome(const TrainerUser& user, std::vector<std::string>* env) {
  std::erase_if(*env, [](const std::string& entry) { return absl::StartsWith(entry, "HOME="); });
  if (!user.home.empty()) env->push_back(absl::StrCat("HOME=", user.home));
}

}  // namespace

std::string FormatProcessId(const ProcessId& process) {
  return absl::StrCat(process.pid, " ", process.start_ticks, " ", process.boot_id, "\n");
}

absl::StatusOr<ProcessId> ParseProcessId(absl::string_view text) {
  const std::vector<std::string> fields =
      absl::StrSplit(absl::StripSuffix(text, "\n"), ' ', absl::SkipEmpty());
  ProcessId process;
  if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &process.pid) || process.pid <= 0 ||
      !absl::SimpleAtoi(fields[1], &process.start_ticks)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pid file holds \"", text, "\", expected PID START_TICKS BOOT_ID"));
  }
  process.boot_id = fields[2];
  return process;
}

absl::StatusOr<ProcessId> Spawn(const SpawnOptions& options) {
  std::vector<std::string> args = options.args;
  args.insert(args.begin(), options.binary);
  std::vector<std::string> env = options.env;
  ChildPlan plan{options.binary.c_str(), nullptr, nullptr, options.output_fd, -1,
                 options.core,           nullptr};
  FileDescriptor group;
  if (options.rights != nullptr) {
    plan.rights = &options.rights->rights;
    if (plan.rights->user.has_value()) ReplaceHome(*plan.rights->user, &env);
    if (options.rights->groups.has_value()) {
      ASSIGN_OR_RETURN(group, options.rights->groups->Make(options.group));
      plan.group = group.get();
    }
  }
  const std::vector<char*> arg_pointers = Pointers(args), env_pointers = Pointers(env);
  plan.args = arg_pointers.data();
  plan.env = env_pointers.data();
  ASSIGN_OR_RETURN(const pid_t pid, Fork(plan));
  absl::StatusOr<ProcessId> process = IdentifyProcess(pid);
  if (process.ok()) return process;
  // It has already exited. It is an unreaped child, so its pid cannot be reused yet.
  return ProcessId{pid, 0, BootId()};
}

absl::StatusOr<ProcessId> IdentifyProcess(int pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/stat");
  ASSIGN_OR_RETURN(const std::string stat, ReadFile(path));
  // The second field is the name in brackets, which may contain anything; the last ')' ends it.
  const size_t end = stat.rfind(')');
  if (end == std::string::npos)
    return absl::NotFoundError(absl::StrCat(path, " is not a stat line"));
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(end + 1), ' ', absl::SkipEmpty());
  uint64_t start = 0;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &start)) {
    return absl::NotFoundError(absl::StrCat(path, " has no start time"));
  }
  if (fields[0] == "Z" || fields[0] == "X") {
    return absl::NotFoundError(absl::StrCat("process ", pid, " has exited"));
  }
  return ProcessId{pid, start, BootId()};
}

bool IsAlive(const ProcessId& process) {
  const absl::StatusOr<ProcessId> found = IdentifyProcess(process.pid);
  return found.ok() && *found == process;
}

absl::StatusOr<int64_t> ResidentBytes(const ProcessId& process) {
  const std::string path = absl::StrCat("/proc/", process.pid, "/statm");
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const std::vector<std::string> pages = absl::StrSplit(text, ' ');
  int64_t resident = 0;
  if (pages.size() < 2 || !absl::SimpleAtoi(pages[1], &resident)) {
    return absl::NotFoundError(
        absl::StrCat(path, " holds \"", text, "\", expected sizes in pages"));
  }
  // Checked after the read, which therefore was not of another process with this pid.
  if (!IsAlive(process)) {
    return absl::NotFoundError(absl::StrCat("process ", process.pid, " is gone"));
  }
  return resident * ::sysconf(_SC_PAGESIZE);
}

absl::StatusOr<FileDescriptor> WatchProcess(const ProcessId& process) {
  FileDescriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  const int error = errno;
  if (!watch.valid() && error != ESRCH) {
    return ErrnoStatus(error, absl::StrCat("watch process ", process.pid));
  }
  // Checked after the open: from here on the descriptor cannot refer to another process.
  const bool ours = process.start_ticks == 0 && process.boot_id == BootId();
  const absl::StatusOr<ProcessId> found = IdentifyProcess(process.pid);
  const bool reused = found.ok() && !ours && !(*found == process);
  if (!watch.valid() || reused) {
    return absl::NotFoundError(absl::StrCat("process ", process.pid, " is gone"));
  }
  return watch;
}

void SignalGroup(const ProcessId& process, int signal) {
  if (!IsAlive(process)) return;
  if (::kill(-process.pid, signal) != 0) ::kill(process.pid, signal);
}

ExitStatus Reap(const FileDescriptor& watch) {
  siginfo_t info;
  std::memset(&info, 0, sizeof(info));
  while (::waitid(P_PIDFD, static_cast<id_t>(watch.get()), &info, WEXITED) != 0) {
    if (errno != EINTR) return ExitStatus{};
  }
  ExitStatus status{true, 0, 0};
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
  }
  return status;
}

}  // namespace stretto::daemon
