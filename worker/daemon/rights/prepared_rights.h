// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the flags of a daemon to what each of its trainers may do. Done once, when the daemon
// starts.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/limits.h"
#include "worker/daemon/rights/rights.h"
#include "worker/daemon/rights/trainer_groups.h"

namespace stretto::daemon {

struct RightsOptions {
  std::string user = "auto";                            // --trainer-user
  int64_t threads = limits::kTrainerThreads.value;      // of a trainer and all that it starts
  int64_t open_files = limits::kTrainerFiles.value;     // of each process
  int64_t memory_bytes = limits::kTrainerMemory.value;  // 0: no limit
  std::string groups = "auto";  // --trainer-groups: that, "none" or a folder
  bool core_dumps = false;
  bool all_calls = false;  // without a filter of system calls
};

// What trainers use, as absolute paths.
struct TrainerFolders {
  std::string state_dir, data_root, checkpoint_root, trainer_binary;
};

struct PreparedRights {
  TrainerRights rights;
  std::optional<TrainerGroups> groups;
};

// Confines this process to the folders of trainers in the state folder, finds the user, shares the
// folders with it, makes the filter, and finds a place for control groups. Logs in one line what
// holds, and a line for each part that this machine cannot give and that nobody asked for by name.
// `slots` is the number of trainers that may run at a time. Errors, which name the flag:
// INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (what was
// asked for by name is not possible), those of ErrnoStatus.
absl::StatusOr<PreparedRights> PrepareRights(const RightsOptions& options,
                                             const TrainerFolders& folders, int slots);

}  // namespace stretto::daemon
