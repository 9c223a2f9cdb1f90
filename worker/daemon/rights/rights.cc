// SPDX-License-Identifier: Apache-2.0

// Only system calls, made without the C library where that has locks or other threads to consider.
// The order matters: limits and groups need rights that the change of the user takes away, and a
// filter needs no_new_privs where the process has no privileges.

#include "worker/daemon/rights/rights.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace stretto::daemon {
namespace {

struct KernelLimit {  // rlimit64, as prlimit64 takes it
  uint64_t soft, hard;
};

// Lowers both limits to `most`, or to the hard one where that is lower. Zero: no failure.
int LowerLimit(int resource, uint64_t most) {
  KernelLimit limit = {};
  if (::syscall(SYS_prlimit64, 0, resource, nullptr, &limit) != 0) return errno;
  limit.hard = std::min(limit.hard, most);
  limit.soft = limit.hard;
  return ::syscall(SYS_prlimit64, 0, resource, &limit, nullptr) == 0 ? 0 : errno;
}

int BecomeUser(const TrainerUser& user) {
  // The C library's functions would ask all threads of the parent, which do not exist here.
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0) return errno;
  if (::syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0) return errno;
  return ::syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0 ? 0 : errno;
}

// What a trainer of root keeps: data sets and checkpoints of others, and memory for a GPU or a
// network adapter. It cannot get others back, because no_new_privs follows.
constexpr uint64_t kKept = (uint64_t{1} << CAP_DAC_OVERRIDE) |
                           (uint64_t{1} << CAP_DAC_READ_SEARCH) | (uint64_t{1} << CAP_FOWNER) |
                           (uint64_t{1} << CAP_IPC_LOCK);

int DropCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return errno;
  bool changes = false;
  for (int word = 0; word < _LINUX_CAPABILITY_U32S_3; ++word) {
    const auto kept = static_cast<uint32_t>(kKept >> (32 * word));
    changes |= ((data[word].permitted & ~kept) | data[word].inheritable) != 0;
    data[word].permitted &= kept;
    data[word].effective &= kept;
    data[word].inheritable = 0;
  }
  // A service that has none may not even ask (SystemCallFilter=~@privileged of our own unit).
  if (!changes) return 0;
  return ::syscall(SYS_capset, &header, data) == 0 ? 0 : errno;
}

int Filter(const std::vector<sock_filter>& filter) {
  const sock_fprog program = {static_cast<unsigned short>(filter.size()),
                              const_cast<sock_filter*>(filter.data())};
  // The kernel's log then has the calls that are refused.
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &program) == 0)
    return 0;
  // Where a filter of somebody else refuses that call, the older one does the same but for the log.
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ? 0 : errno;
}

}  // namespace

FailedStep KeepOnly(const TrainerRights& rights) {
  // One byte is too little for a file, and what the kernel takes for "no" where a program takes
  // core dumps: it runs that one with a limit of 0 too.
  if (!rights.core_dumps) {
    if (const int error = LowerLimit(RLIMIT_CORE, 1)) return {"limit core dumps", error};
  }
  if (rights.open_files > 0) {
    if (const int error = LowerLimit(RLIMIT_NOFILE, rights.open_files))
      return {"limit open files", error};
  }
  if (rights.threads > 0) {
    if (const int error = LowerLimit(RLIMIT_NPROC, rights.threads)) return {"limit threads", error};
  }
  if (rights.user.has_value()) {
    if (const int error = BecomeUser(*rights.user)) return {"become another user", error};
  }
  if (const int error = DropCapabilities()) return {"drop capabilities", error};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {"give up new privileges", errno};
  if (!rights.filter.empty()) {
    if (const int error = Filter(rights.filter)) return {"filter system calls", error};
  }
  return {};
}

}  // namespace stretto::daemon
