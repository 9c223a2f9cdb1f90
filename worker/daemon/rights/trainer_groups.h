// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control groups of trainers (version 2): one for each, which bounds its threads and its memory and
// ends it as a whole where memory runs out. Only where a part of the tree of groups is the
// daemon's.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto::daemon {

inline constexpr char kTrainerGroup[] = "stretto-trainer-";

// Thread-safe.
class TrainerGroups {
 public:
  struct Limits {
    int64_t threads = 0;       // of one trainer and all that it starts; 0: no limit
    int64_t memory_bytes = 0;  // of the same; 0: no limit
  };

  // Returns the folder in which this process may make groups: the parent of its own group, or its
  // own if that is the root of what it sees, as in a container; it then moves into a group of its
  // own in there. `root` is the folder that has proc and sys. Errors: FAILED_PRECONDITION (no such
  // folder; says why).
  static absl::StatusOr<std::string> FindFolder(const std::string& root = "");

  // Uses `folder`, whose groups get the controllers for the limits. Errors: FAILED_PRECONDITION
  // (it is no group, cannot be written, or has no controller for a limit).
  static absl::StatusOr<TrainerGroups> Open(std::string folder, Limits limits);

  // Makes a group, and returns a file: a process that writes "0" to it is in the group. Errors:
  // those of ErrnoStatus.
  absl::StatusOr<FileDescriptor> Make(const std::string& name) const;
  // Whether the kernel has ended a process of the group because memory ran out.
  bool RanOutOfMemory(const std::string& name) const;
  // Removes the groups of trainers that have ended: those without processes whose name begins with
  // kTrainerGroup. No start of a trainer may be under way.
  void RemoveEnded() const;

  const std::string& folder() const { return folder_; }

 private:
  TrainerGroups(std::string folder, Limits limits) : folder_(std::move(folder)), limits_(limits) {}

  std::string folder_;
  Limits limits_;
};

}  // namespace stretto::daemon
