// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a file of a checkpoint and verifies it on the way.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/checkpoint/checksums.h"

namespace stretto {

// Called with the number of bytes that were just read.
using ReadProgress = std::function<void(int64_t bytes)>;

// Reads a file from its begin to its end. Ranges that are asked for in rising order are copied on
// the way, so that every byte is read from the file once. Not thread-safe.
class CheckedFile {
 public:
  // Errors: those of ErrnoStatus.
  static absl::StatusOr<CheckedFile> Open(const std::string& path, ReadProgress progress = {});

  // Copies `count` bytes, starting at byte `offset`. What precedes the range and was not yet read
  // is read too; what the reading has passed is read again. Errors: DataLoss (the file is too
  // short), those of ErrnoStatus.
  absl::Status Read(int64_t offset, int64_t count, void* out);

  // Reads what is left and returns the record of the whole file. Errors: those of ErrnoStatus.
  absl::StatusOr<FileRecord> Finish();
  // The same, and compares the record with the expected one. Errors: DataLoss, which names the
  // path, found and expected; those of ErrnoStatus.
  absl::Status FinishAs(const FileRecord& expected);

 private:
  CheckedFile(std::string path, FileDescriptor file, ReadProgress progress)
      : path_(std::move(path)), file_(std::move(file)), progress_(std::move(progress)) {}

  int64_t end() const { return begin_ + static_cast<int64_t>(block_.size()); }
  // Replaces the block by the next one, which is empty at the end of the file.
  absl::Status Advance();

  std::string path_;
  FileDescriptor file_;
  ReadProgress progress_;
  std::string block_;  // the bytes [begin_, end()) of the file
  int64_t begin_ = 0;
  Checksums checksums_;  // of all bytes before end()
};

// Returns the present size and checksums of a file, which it reads once. Errors: those of
// ErrnoStatus.
absl::StatusOr<FileRecord> ChecksumFile(const std::string& path);

}  // namespace stretto
