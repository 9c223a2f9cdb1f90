// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/tensor_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {
namespace {

constexpr int64_t kMaxIndexBytes = 64 << 20;

// Accepts one plain component, so that no file outside the folder can be named.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > 0x20 && c < 0x7f && c != '/' && c != '\\'; });
}

absl::Status IndexError(const std::string& path, absl::string_view what, absl::string_view found,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, ": found ", found, ", expected ", expected));
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseHfIndex(absl::string_view text,
                                                                const std::string& path) {
  ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text, path));
  const auto found = document.find("weight_map");
  if (found == document.end() || !found->is_object() || found->empty()) {
    return IndexError(path, "weight_map",
                      found == document.end() ? "nothing" : found->dump().substr(0, 60),
                      "an object of a file for each tensor");
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string() || !IsPlainName(file.get<std::string>())) {
      return IndexError(path, absl::StrCat("weight_map.", tensor),
                        file.is_string() ? file.get<std::string>() : file.type_name(),
                        "the name of a file in the same folder");
    }
    files[tensor] = file.get<std::string>();
  }
  return files;
}

absl::StatusOr<const SafetensorsReader*> TensorFolder::AddFile(const std::string& path) {
  const auto known = files_.find(path);
  if (known != files_.end()) return &known->second;
  ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(path));
  return &files_.emplace(path, std::move(reader)).first->second;
}

absl::StatusOr<TensorFolder> TensorFolder::Open(const std::string& folder) {
  TensorFolder opened;
  const std::string single = absl::StrCat(folder, "/", kHfWeightsName);
  const std::string index = absl::StrCat(folder, "/", kHfIndexName);
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index, ignored)) {
    ASSIGN_OR_RETURN(const SafetensorsReader* file, opened.AddFile(single));
    for (const StoredTensor& tensor : file->header().tensors) {
      opened.tensors_[tensor.name] = {file, &tensor, single};
    }
    return opened;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(index, kMaxIndexBytes));
  ASSIGN_OR_RETURN(const auto weight_map, ParseHfIndex(text, index));
  for (const auto& [tensor, name] : weight_map) {
    RETURN_IF_ERROR(opened.AddFile(absl::StrCat(folder, "/", name)).status());
  }
  for (const auto& [path, file] : opened.files_) {
    for (const StoredTensor& tensor : file.header().tensors) {
      const auto listed = weight_map.find(tensor.name);
      if (listed == weight_map.end() || absl::StrCat(folder, "/", listed->second) != path) {
        return IndexError(path, absl::StrCat("tensor ", tensor.name), "it here",
                          listed == weight_map.end() ? "it in the weight_map of the index"
                                                     : absl::StrCat("it in ", listed->second));
      }
      opened.tensors_[tensor.name] = {&file, &tensor, path};
    }
  }
  for (const auto& [tensor, name] : weight_map) {
    if (opened.tensors_.count(tensor) == 0) {
      return IndexError(index, absl::StrCat("weight_map.", tensor), name,
                        "a file that has the tensor");
    }
  }
  return opened;
}

}  // namespace stretto
