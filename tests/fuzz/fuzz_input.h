// SPDX-License-Identifier: Apache-2.0
#pragma once
// What fuzz targets share: their input as text, or as a file.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto::fuzz {

inline absl::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The messages of an input that is a list of them, each after two bytes with its length, lower one
// first. Of the last one there may be less.
inline std::vector<absl::string_view> MessagesOf(absl::string_view bytes) {
  std::vector<absl::string_view> messages;
  while (bytes.size() >= 2) {
    const size_t length = static_cast<uint8_t>(bytes[0]) + 256 * static_cast<uint8_t>(bytes[1]);
    messages.push_back(bytes.substr(2, length));
    bytes.remove_prefix(2 + messages.back().size());
  }
  return messages;
}

// A folder of this process alone, in memory where the machine has that, and removed with it.
class Folder {
 public:
  static const Folder& Get() {
    static const Folder folder;
    return folder;
  }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // Returns the path of a file with these bytes.
  std::string Write(const std::string& name, absl::string_view bytes) const {
    const std::string path = Path(name);
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  Folder() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    std::string pattern =
        (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path_;
};

}  // namespace stretto::fuzz
