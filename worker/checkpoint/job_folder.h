// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folders under ROOT/JOB: their names, and checks that read no tensors.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/manifest.h"

namespace stretto {

struct FolderName {
  enum class Kind { kFinal, kTemporary, kBad };
  Kind kind = Kind::kFinal;
  int64_t step = 0;
  int64_t suffix = 0;  // the epoch of a temporary, the number of a bad one
};

std::string TemporaryName(int64_t step, int64_t epoch);
std::string BadName(int64_t step, int64_t number);

// Returns nothing for names that are not ours.
std::optional<FolderName> ParseFolderName(absl::string_view name);

struct JobEntry {
  std::string path;
  FolderName name;
};
// Returns the entries with our names, in no particular order.
absl::StatusOr<std::vector<JobEntry>> ListJobFolder(const std::string& job_folder);

// Errors: NotFound (no manifest), InvalidArgument (malformed), those of ErrnoStatus.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);
// Returns DataLoss if a file of the manifest is missing or has another size.
absl::Status CheckSizes(const std::string& folder, const Manifest& manifest);
// Calls both.
absl::StatusOr<Manifest> GlanceAt(const std::string& folder);

}  // namespace stretto
