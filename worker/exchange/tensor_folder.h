// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of a Hugging Face folder: model.safetensors, or several files with an index.
//   model.safetensors.index.json   {"metadata": {...}, "weight_map": {TENSOR: FILE, ...}}

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/safetensors.h"

namespace stretto {

inline constexpr char kHfWeightsName[] = "model.safetensors";
inline constexpr char kHfIndexName[] = "model.safetensors.index.json";

// Returns the file of each tensor. Errors: InvalidArgument (names `path`, found, expected), also
// for a file that would not be beside the index.
absl::StatusOr<std::map<std::string, std::string>> ParseHfIndex(absl::string_view text,
                                                                const std::string& path);

// Thread-safe once open.
class TensorFolder {
 public:
  struct Entry {
    const SafetensorsReader* file = nullptr;
    const StoredTensor* tensor = nullptr;
    std::string path;  // of the file
  };

  // As in transformers, a single file takes precedence over an index. Errors: NotFound and the
  // like, InvalidArgument (malformed; the files and the index disagree).
  static absl::StatusOr<TensorFolder> Open(const std::string& folder);

  // By name; the pointers are valid as long as the folder, even after it is moved.
  const std::map<std::string, Entry>& tensors() const { return tensors_; }

 private:
  absl::StatusOr<const SafetensorsReader*> AddFile(const std::string& path);

  std::map<std::string, SafetensorsReader> files_;  // by path; a map keeps addresses
  std::map<std::string, Entry> tensors_;
};

}  // namespace stretto
