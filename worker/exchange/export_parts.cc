// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/export_parts.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {

absl::StatusOr<std::string> ExportDtype(const ModelSource& source, const ExportOptions& options) {
  const std::string& dtype = options.dtype.empty() ? source.dtype() : options.dtype;
  for (const char* known : {"F32", "BF16", "F16"}) {
    if (dtype == known) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype of the export: found ", dtype, ", expected F32, BF16 or F16"));
}

absl::Status CopyTokenizer(const ModelSource& source, const std::string& folder) {
  for (const std::string& path : source.tokenizer_files()) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
    const std::string name = std::filesystem::path(path).filename().string();
    RETURN_IF_ERROR(WriteFileAtomic(absl::StrCat(folder, "/", name), content));
  }
  return absl::OkStatus();
}

}  // namespace stretto
