// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checksums by which files of a checkpoint are verified.

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace stretto {

// The size and checksums that a file must have when it is read again.
struct FileRecord {
  std::string name;  // without the folder
  int64_t size = 0;
  uint32_t crc32c = 0;
  std::string sha256;  // 64 hexadecimal digits

  bool operator==(const FileRecord&) const = default;
};

// Computes both checksums of a stream of bytes.
class Checksums {
 public:
  Checksums();

  void Add(absl::string_view block);
  // Returns the record of all that was added, as the file with this path. Call it once, at the end.
  FileRecord Finish(const std::string& path);

 private:
  int64_t size_ = 0;
  uint32_t crc32c_ = 0;
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> sha256_;
};

// Small enough that a block is still in cache for the second checksum and for the copy to the
// kernel.
inline constexpr size_t kChecksumBlockBytes = size_t{256} << 10;

}  // namespace stretto
