// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a file has changed since it was read.

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>

namespace stretto::tls {

// What changes with the content of a file, whether it is replaced or written; zeros without a file.
using FileVersion = std::array<int64_t, 6>;

inline FileVersion VersionOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {static_cast<int64_t>(info.st_dev),
          static_cast<int64_t>(info.st_ino),
          info.st_size,
          info.st_mtim.tv_sec,
          info.st_mtim.tv_nsec,
          info.st_ctim.tv_nsec};
}

}  // namespace stretto::tls
