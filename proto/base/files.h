// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files written so that a crash leaves the old content or the new, never a mixture; and paths from
// users that are confined to a root.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();

 private:
  int fd_ = -1;
};

// Returns the status for an errno: NotFound, PermissionDenied, ResourceExhausted (disk full,
// quota), AlreadyExists or Unavailable. `what` names the operation and the object: "write /a/b".
absl::Status ErrnoStatus(int error, absl::string_view what);

absl::StatusOr<std::string> ReadFile(const std::string& path);

// Reads a file that we do not trust: it never waits for a writer and never reads more than `most`
// bytes. Errors: InvalidArgument (not a regular file, or a larger one; the message names path,
// found and expected), those of ErrnoStatus.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most);

// Reads `count` bytes, starting at byte `offset`. `path` names the file in errors: DataLoss (the
// file is too short), those of ErrnoStatus.
absl::Status ReadFully(int fd, int64_t offset, int64_t count, void* out, const std::string& path);

// Writes a temporary file beside `path`, fsyncs it, renames it to `path` and fsyncs the folder. Its
// name, "PATH.tmp-" and a NewUid, is nobody else's: of several writers the last one counts, and
// what others have beside `path` stays. An error names `path` and leaves no temporary file.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view content);

// As WriteFileAtomic, but nobody but the owner can ever read it: mode 0600 from the start.
absl::Status WritePrivateFile(const std::string& path, absl::string_view content);

// Writes all of `content` at the descriptor's position; retries short writes.
absl::Status WriteAll(int fd, absl::string_view content, absl::string_view path);

// fsyncs a file or folder by path.
absl::Status SyncPath(const std::string& path);

// Joins `relative` to `root`. Returns PermissionDenied for anything that would leave the root:
// absolute paths, "..", control characters, and symbolic links that point outside (resolved as far
// as the path exists).
absl::StatusOr<std::string> PathBeneath(const std::string& root, const std::string& relative);

// Returns the CRC-32C (Castagnoli) of `content`, continuing from `crc`. For step logs and shards.
uint32_t Crc32c(absl::string_view content, uint32_t crc = 0);

}  // namespace stretto
