// SPDX-License-Identifier: Apache-2.0
#pragma once
// Processes by identity, not by number: a pid is valid only with its start time and its boot, so
// that a pid that the kernel has reused is never signalled by mistake.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/daemon/rights/prepared_rights.h"

namespace stretto::daemon {

struct ProcessId {
  int pid = 0;
  uint64_t start_ticks = 0;  // clock ticks after boot, /proc/PID/stat field 22
  std::string boot_id;

  bool operator==(const ProcessId& other) const = default;
};

// One line, "PID START_TICKS BOOT_ID".
std::string FormatProcessId(const ProcessId& process);
// Errors: INVALID_ARGUMENT (not such a line).
absl::StatusOr<ProcessId> ParseProcessId(absl::string_view text);

struct SpawnOptions {
  std::string binary;
  std::vector<std::string> args;           // without argv[0]
  std::vector<std::string> env;            // the whole environment, "NAME=value"
  int output_fd = -1;                      // becomes stdout and stderr; borrowed
  int core = -1;                           // CPU to bind it to; -1: any that this process may use
  const PreparedRights* rights = nullptr;  // what it may do; borrowed; nullptr: what we may
  std::string group = "";                  // name of its control group, if `rights` has groups
};

// Starts a process that leads its own session, with default signal handling, stdin from /dev/null
// and none of our other descriptors. It does not die with its parent. Errors: NOT_FOUND,
// PERMISSION_DENIED, UNAVAILABLE (it could not be executed, or a right could not be taken away; the
// message names the binary and the step).
absl::StatusOr<ProcessId> Spawn(const SpawnOptions& options);

// Returns the identity of a running process. Errors: NOT_FOUND (none, or a zombie).
absl::StatusOr<ProcessId> IdentifyProcess(int pid);

bool IsAlive(const ProcessId& process);

// Returns the resident memory of the process in bytes. Errors: NOT_FOUND (it is gone).
absl::StatusOr<int64_t> ResidentBytes(const ProcessId& process);

// Returns a descriptor that polls readable when the process has exited. Errors: NOT_FOUND (it is
// already gone).
absl::StatusOr<FileDescriptor> WatchProcess(const ProcessId& process);

// Signals the process and its whole group, unless its identity shows that it is gone.
void SignalGroup(const ProcessId& process, int signal);

struct ExitStatus {
  bool observed = false;  // false: not our child, so its status is unknown
  int code = 0;
  int signal = 0;
  bool out_of_memory = false;  // the kernel sent it, because memory ran out; Reap cannot know
};

// Reaps a process whose descriptor polled readable.
ExitStatus Reap(const FileDescriptor& watch);

}  // namespace stretto::daemon
