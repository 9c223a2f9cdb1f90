// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/model_name.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/exchange/checkpoint_source.h"
#include "worker/exchange/hf_config.h"

namespace stretto {

bool NamesCheckpoint(const std::string& name) {
  return !absl::StartsWith(name, "hf:") && !absl::StartsWith(name, "llmc:");
}

absl::StatusOr<std::string> ResolveModel(const std::string& name) {
  if (!NamesCheckpoint(name)) return name;
  absl::StatusOr<std::string> folder = CheckpointFolderOf(name);
  std::error_code ignored;
  if (absl::IsNotFound(folder.status()) &&
      std::filesystem::exists(absl::StrCat(name, "/", kHfConfigName), ignored)) {
    return absl::NotFoundError(
        absl::StrCat(folder.status().message(), "; a Hugging Face model is named hf:", name));
  }
  return folder;
}

}  // namespace stretto
