// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder that appears whole in one step, or not at all.

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto {

// Checks that an export may be written to `path`. Errors: NotFound (no folder to create `path` in),
// AlreadyExists (`path` exists and not `overwrite`), FailedPrecondition (it is no export: it has
// files that no export writes), those of ErrnoStatus.
absl::Status CheckOutput(const std::string& path, bool overwrite);

// Exchanges two folders on file systems that cannot do so atomically. Between two renames `b` does
// not exist, and its old contents are "A.aside". Errors: those of ErrnoStatus; `b` is then
// unchanged.
absl::Status SwapByRenames(const std::string& a, const std::string& b);

// Owns a temporary folder beside the target, and removes it unless Finish has moved it there.
class ExportFolder {
 public:
  // Creates "PATH.tmp-PID", or "PATH.tmp-PID-N" if another process left that behind. Errors: those
  // of CheckOutput and of ErrnoStatus.
  static absl::StatusOr<ExportFolder> Create(const std::string& path, bool overwrite);

  ExportFolder(ExportFolder&& other) noexcept;
  ExportFolder& operator=(ExportFolder&&) = delete;
  ~ExportFolder();

  // The folder to write to.
  const std::string& temporary() const { return temporary_; }
  // Moves it to its place, in exchange for an old export, and fsyncs.
  absl::Status Finish();

 private:
  ExportFolder(std::string path, std::string temporary, bool overwrite)
      : path_(std::move(path)), temporary_(std::move(temporary)), overwrite_(overwrite) {}

  std::string path_, temporary_;
  bool overwrite_;
};

}  // namespace stretto
