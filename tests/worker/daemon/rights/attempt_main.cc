// SPDX-License-Identifier: Apache-2.0

// What a trainer that somebody has taken over might try, and what it finds:
//   rights-attempt calls        makes each denied call with useless arguments; "NAME ERRNO" for
//   each rights-attempt namespaces   the same for clone with a flag for a namespace
//   rights-attempt thread       "thread" if another thread could be started and ended
//   rights-attempt process      "process" if another program could be executed
//   rights-attempt whoami       user, group, supplementary groups, capabilities, no_new_privs,
//   filter rights-attempt files        how many files can be open
//   rights-attempt crash        aborts, after it has asked for core dumps of any size
//   rights-attempt read FILE    its text; "ERRNO" if it cannot be opened
//   rights-attempt run PROGRAM ARGUMENT...   executes that program with the rights of a trainer

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "worker/daemon/rights/denied_calls.h"
#include "worker/daemon/rights/rights.h"

namespace {

using namespace stretto::daemon;  // NOLINT: a program of one file

int Calls() {
  for (const char* name : DeniedCalls()) {
    const int number = seccomp_syscall_resolve_name(name);
    errno = 0;
    ::syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
    std::printf("%s %d\n", name, errno);
  }
  return 0;
}

int Namespaces() {
  for (const int flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                         CLONE_NEWUTS, CLONE_NEWCGROUP}) {
    const long child = ::syscall(SYS_clone, flag | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) ::_exit(0);
    std::printf("%d\n", child < 0 ? errno : 0);
    if (child > 0) ::waitpid(static_cast<pid_t>(child), nullptr, 0);
  }
  return 0;
}

int Process() {
  char name[] = "true";
  char* const args[] = {name, nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, "/bin/true", nullptr, nullptr, args, environ) != 0) return 1;
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == 0) std::puts("process");
  return status;
}

int WhoAmI() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const char* name :
         {"Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapInh:", "NoNewPrivs:", "Seccomp:"}) {
      if (line.rfind(name, 0) == 0) std::puts(line.c_str());
    }
  }
  const char* home = ::getenv("HOME");
  std::printf("HOME=%s\n", home == nullptr ? "" : home);
  return 0;
}

int Files() {
  int files = 0;
  while (::open("/dev/null", O_RDONLY) >= 0) ++files;
  std::printf("%d\n", files + 3);
  return 0;
}

int Crash() {
  const rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_CORE, &any);
  ::abort();
}

int ReadText(const char* path) {
  const int file = ::open(path, O_RDONLY);
  if (file < 0) {
    std::printf("%d\n", errno);
    return 0;
  }
  char text[256] = {};
  if (::read(file, text, sizeof(text) - 1) < 0) return 1;
  std::fputs(text, stdout);
  return 0;
}

int Run(char** command) {
  absl::StatusOr<std::vector<sock_filter>> filter = FilterOfCalls();
  if (!filter.ok()) return 1;
  const TrainerRights rights{.user = std::nullopt, .open_files = 65'536, .filter = *filter};
  const FailedStep failed = KeepOnly(rights);
  if (failed.what != nullptr) {
    std::fprintf(stderr, "%s: %s\n", failed.what, std::strerror(failed.error));
    return 1;
  }
  ::execvp(command[0], command);
  std::perror(command[0]);
  return 127;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "calls") return Calls();
  if (what == "namespaces") return Namespaces();
  if (what == "process") return Process();
  if (what == "whoami") return WhoAmI();
  if (what == "files") return Files();
  if (what == "crash") return Crash();
  if (what == "read" && argc == 3) return ReadText(argv[2]);
  if (what == "run" && argc > 2) return Run(argv + 2);
  if (what == "thread") {
    std::thread([] { std::puts("thread"); }).join();
    return 0;
  }
  return 2;
}
