// SPDX-License-Identifier: Apache-2.0

// Reads block after block. A block is checksummed when it arrives, and ranges are copied out of it
// before the next one replaces it.

#include "worker/checkpoint/checked_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"

namespace stretto {

absl::StatusOr<CheckedFile> CheckedFile::Open(const std::string& path, ReadProgress progress) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(path, O_RDONLY));
  return CheckedFile(path, std::move(file), std::move(progress));
}

absl::Status CheckedFile::Advance() {
  begin_ = end();
  block_.resize(kChecksumBlockBytes);
  ssize_t n = 0;
  do {
    n = ::read(file_.get(), block_.data(), block_.size());
  } while (n < 0 && errno == EINTR);
  const int error = errno;
  block_.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n < 0) return ErrnoStatus(error, absl::StrCat("read ", path_));
  checksums_.Add(block_);
  if (progress_ && n > 0) progress_(n);
  return absl::OkStatus();
}

absl::Status CheckedFile::Read(int64_t offset, int64_t count, void* out) {
  char* to = static_cast<char*>(out);
  if (const int64_t passed = std::min(count, begin_ - offset); passed > 0) {
    RETURN_IF_ERROR(ReadFully(file_.get(), offset, passed, to, path_));
    offset += passed;
    count -= passed;
    to += passed;
  }
  while (count > 0) {
    if (offset >= end()) {
      RETURN_IF_ERROR(Advance());
      if (block_.empty()) {
        return absl::DataLossError(
            absl::StrCat(path_, ": found ", begin_, " bytes, expected at least ", offset + count));
      }
      continue;
    }
    const int64_t n = std::min(count, end() - offset);
    std::memcpy(to, block_.data() + (offset - begin_), static_cast<size_t>(n));
    offset += n;
    count -= n;
    to += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<FileRecord> CheckedFile::Finish() {
  do {
    RETURN_IF_ERROR(Advance());
  } while (!block_.empty());
  return checksums_.Finish(path_);
}

absl::Status CheckedFile::FinishAs(const FileRecord& expected) {
  ASSIGN_OR_RETURN(const FileRecord found, Finish());
  const auto differ = [&](absl::string_view what, const auto& is, const auto& should) {
    return absl::DataLossError(
        absl::StrCat(path_, ": ", what, ": found ", is, ", expected ", should));
  };
  if (found.size != expected.size) return differ("size", found.size, expected.size);
  if (found.crc32c != expected.crc32c) return differ("crc32c", found.crc32c, expected.crc32c);
  if (found.sha256 != expected.sha256) return differ("sha256", found.sha256, expected.sha256);
  return absl::OkStatus();
}

absl::StatusOr<FileRecord> ChecksumFile(const std::string& path) {
  ASSIGN_OR_RETURN(CheckedFile file, CheckedFile::Open(path));
  return file.Finish();
}

}  // namespace stretto
