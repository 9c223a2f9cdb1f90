// SPDX-License-Identifier: Apache-2.0

// Spawns with posix_spawn: in its own session, with its output to a descriptor, without an
// inherited signal mask, bound to a core. A process is identified by pid, start time and boot, read
// from /proc, and watched and reaped by a pidfd. An adopted process is not our child, so its exit
// status is unknown.

#include "worker/daemon/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

// Binds the calling thread to one core for its lifetime: a spawned process inherits it.
class ScopedAffinity {
 public:
  explicit ScopedAffinity(int core) {
    if (core < 0 || core >= CPU_SETSIZE) return;
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    bound_ = sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  ~ScopedAffinity() {
    if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  ScopedAffinity(const ScopedAffinity&) = delete;
  ScopedAffinity& operator=(const ScopedAffinity&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Owns the two attribute objects of posix_spawn.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

void FillPlan(int output_fd, SpawnPlan* plan) {
  posix_spawn_file_actions_addopen(&plan->files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&plan->files, output_fd, 1);
  posix_spawn_file_actions_adddup2(&plan->files, output_fd, 2);
  posix_spawn_file_actions_addclosefrom_np(&plan->files, 3);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan->attributes, &none);
  posix_spawnattr_setsigdefault(&plan->attributes, &all);
  posix_spawnattr_setflags(&plan->attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
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
  SpawnPlan plan;
  FillPlan(options.output_fd, &plan);
  pid_t pid = 0;
  int error = 0;
  {
    const ScopedAffinity bound(options.core);
    error = ::posix_spawn(&pid, options.binary.c_str(), &plan.files, &plan.attributes,
                          Pointers(args).data(), Pointers(env).data());
  }
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start trainer ", options.binary));
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
