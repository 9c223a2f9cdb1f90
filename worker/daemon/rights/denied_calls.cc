// SPDX-License-Identifier: Apache-2.0

// A list of what is denied, not of what is allowed: CUDA's driver, NCCL, gloo and oneDNN make calls
// that nobody lists, other ones with each version. libseccomp knows the numbers and writes the
// program for the kernel into a file in memory.

#include "worker/daemon/rights/denied_calls.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

constexpr const char* kDenied[] = {
// Other processes. The leak checker of a sanitized build traces its own threads at its end.
// clang-format off
#if !defined(__SANITIZE_ADDRESS__)
    "ptrace",
#endif
    "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp",
    // Code in the kernel, and its interfaces that have had most faults.
    "bpf", "perf_event_open", "userfaultfd", "init_module", "finit_module", "delete_module",
    "kexec_load", "kexec_file_load", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "lookup_dcookie", "vmsplice",
    // Keys of the kernel.
    "add_key", "request_key", "keyctl",
    // Namespaces, mounts and files without a path.
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at",
    "fanotify_init", "quotactl", "quotactl_fd", "nfsservctl", "swapon", "swapoff", "acct",
    // The machine.
    "reboot", "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime",
    "adjtimex", "syslog", "vhangup", "iopl", "ioperm", "modify_ldt", "uselib", "_sysctl",
    // clang-format on
};

constexpr scmp_datum_t kNamespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                        CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

absl::Status Refused(absl::string_view what, int error) {
  return ErrnoStatus(-error, absl::StrCat("filter of system calls: ", what));
}

absl::StatusOr<std::vector<sock_filter>> Export(scmp_filter_ctx filter) {
  const FileDescriptor memory(::memfd_create("filter", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, "memfd_create");
  if (const int error = seccomp_export_bpf(filter, memory.get()); error != 0)
    return Refused("export", error);
  struct stat info;
  if (::fstat(memory.get(), &info) != 0) return ErrnoStatus(errno, "stat of a memfd");
  std::vector<sock_filter> program(info.st_size / sizeof(sock_filter));
  RETURN_IF_ERROR(ReadFully(memory.get(), 0, info.st_size, program.data(), "memfd"));
  return program;
}

}  // namespace

absl::Span<const char* const> DeniedCalls() { return kDenied; }

absl::StatusOr<std::vector<sock_filter>> FilterOfCalls() {
  const std::unique_ptr<void, decltype(&seccomp_release)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                 &seccomp_release);
  if (filter == nullptr) return absl::InternalError("filter of system calls: no memory");
  int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
  if (error != 0) return Refused("other architectures", error);
  for (const char* name : kDenied) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
      return absl::InternalError(absl::StrCat("filter of system calls: no call ", name));
    error = seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(EPERM), number, 0, nullptr);
    if (error != 0) return Refused(name, error);
  }
  for (const scmp_datum_t flag : kNamespaces) {
    const scmp_arg_cmp has = {0, SCMP_CMP_MASKED_EQ, flag, flag};
    error = seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, &has);
    if (error != 0) return Refused("clone", error);
  }
  error =
      seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, nullptr);
  if (error != 0) return Refused("clone3", error);
  return Export(filter.get());
}

}  // namespace stretto::daemon
