// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file mapped into memory for reading.

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace stretto {

// Shrinking the file while it is mapped raises SIGBUS in its readers, so data is replaced by rename
// and never rewritten in place. A trainer learns then which file it was (mapping_faults.h).
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

// Reads a value at an address of any alignment, in the byte order of this machine: little-endian,
// as files have it.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place");
template <class T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace stretto
