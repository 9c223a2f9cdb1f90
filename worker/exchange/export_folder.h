// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder that appears at once and whole, or not at all.

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto {

// Whether an export may go there. Errors: NotFound (there is no folder to make `path` in),
// AlreadyExists (something is at `path`, and not `overwrite`), FailedPrecondition (what is there is
// no export: it holds files that none writes), those of ErrnoStatus.
absl::Status CheckOutput(const std::string& path, bool overwrite);

// Exchanges two folders where the file system cannot at once; between two renames nothing is at
// `b`, and what was there is "A.aside". Errors: those of ErrnoStatus; `b` is then as it was.
absl::Status SwapByRenames(const std::string& a, const std::string& b);

// Holds a temporary folder beside the one that is wanted; removes it unless it was moved there.
class ExportFolder {
 public:
  // Makes "PATH.tmp-PID", or "PATH.tmp-PID-N" where that is left of another. Errors: those of
  // CheckOutput and of ErrnoStatus.
  static absl::StatusOr<ExportFolder> Create(const std::string& path, bool overwrite);

  ExportFolder(ExportFolder&& other) noexcept;
  ExportFolder& operator=(ExportFolder&&) = delete;
  ~ExportFolder();

  // Where to write.
  const std::string& temporary() const { return temporary_; }
  // Moves it to its place, in exchange for what is there, and fsyncs.
  absl::Status Finish();

 private:
  ExportFolder(std::string path, std::string temporary, bool overwrite)
      : path_(std::move(path)), temporary_(std::move(temporary)), overwrite_(overwrite) {}

  std::string path_, temporary_;
  bool overwrite_;
};

}  // namespace stretto
