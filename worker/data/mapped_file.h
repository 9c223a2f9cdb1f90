// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file mapped into memory for reading.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace stretto {

// Shrinking the file while it is mapped would raise SIGBUS in its readers, so data is replaced by
// rename and never rewritten in place.
class MappedFile {
 public:
  // Errors: those of ErrnoStatus, InvalidArgument (not a regular file).
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const char* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  MappedFile(const char* data, int64_t size) : data_(data), size_(size) {}
  const char* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace stretto
