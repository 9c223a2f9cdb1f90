// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a trainer may do, as plain data that a forked child applies to itself before it executes the
// trainer. Every process that a trainer starts inherits it, and none of them can undo it.

#include <linux/filter.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stretto::daemon {

// The user that trainers run as, if it is not the daemon's.
struct TrainerUser {
  std::string name;  // for messages, "stretto" or "10001"
  std::string home;  // empty: none
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
};

struct TrainerRights {
  std::optional<TrainerUser> user;
  bool core_dumps = false;
  int64_t open_files = 0;           // 0: as the daemon
  int64_t threads = 0;              // of all processes of the user; 0: as the daemon
  std::vector<sock_filter> filter;  // of system calls; empty: none
};

// A step that failed, with its errno.
struct FailedStep {
  const char* what = nullptr;  // "become another user"; nullptr: none failed
  int error = 0;
};

// Takes rights from the calling process, for good: limits, user, capabilities, new privileges,
// system calls. It allocates nothing and takes no lock, so a child of a process with threads may
// call it after a fork. The process must have one thread.
FailedStep KeepOnly(const TrainerRights& rights);

}  // namespace stretto::daemon
