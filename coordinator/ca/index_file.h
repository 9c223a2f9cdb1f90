// SPDX-License-Identifier: Apache-2.0
#pragma once
// The record of index.h as a file that one process has at a time.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/ca/index.h"
#include "proto/base/files.h"

namespace stretto::ca {

// Opens the file and locks it until the descriptor is closed; waits if another process has locked
// it. `flags`: further ones of open().
absl::StatusOr<FileDescriptor> LockFile(const std::string& path, int flags);

// Reads a record, whether or not it is locked. Errors name the file: DATA_LOSS (damaged), those of
// ReadFile.
absl::StatusOr<Index> ReadIndexFile(const std::string& path);

// What is recorded, in messages.
struct RecordWords {
  const char* kind;    // "certificate"
  const char* number;  // "serial number"
  std::string list;    // the command that shows all
};

// One thread.
class IndexFile {
 public:
  // Errors: those of LockFile and ReadIndexFile.
  static absl::StatusOr<IndexFile> Open(const std::string& path, RecordWords words, int flags = 0);

  const Index& index() const { return index_; }

  // What is recorded is on the disk. Errors: those of files; then nothing is recorded.
  absl::Status Issue(const Issued& issued, absl::Time now);

  // Revokes one by its number, or all valid ones of a holder by his name. One that is revoked
  // already is left as it is. Returns those that `what` means. Errors: NOT_FOUND, with the nearest
  // name; those of files.
  absl::StatusOr<std::vector<Issued>> Revoke(const std::string& what, const std::string& reason,
                                             absl::Time now);

 private:
  IndexFile(std::string path, RecordWords words, FileDescriptor file, Index index)
      : path_(std::move(path)),
        words_(std::move(words)),
        file_(std::move(file)),
        index_(std::move(index)) {}
  absl::Status Append(const std::string& line);

  std::string path_;
  RecordWords words_;
  FileDescriptor file_;  // locked
  Index index_;
};

}  // namespace stretto::ca
