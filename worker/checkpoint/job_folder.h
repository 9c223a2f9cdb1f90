// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folders under ROOT/JOB: their names, and checks that read no tensors.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/manifest.h"

namespace stretto {

struct FolderName {
  enum class Kind {
    kFinal,
    kTemporary,
    kBad,    // failed its checks
    kAside,  // of another run, and a run of the same name has reached its step
  };
  Kind kind = Kind::kFinal;
  int64_t step = 0;
  int64_t suffix = 0;    // the epoch of a temporary, the number of one that is kept
  std::string run = {};  // ShortUid of the run that writes a temporary, or wrote one put aside
};

// The digits of a job's uid that are part of names; empty for an empty uid.
std::string ShortUid(absl::string_view job_uid);

// "step-00000030.tmp-7-0123abcd"; without a uid "step-00000030.tmp-7".
std::string TemporaryName(int64_t step, int64_t epoch, absl::string_view job_uid);
std::string BadName(int64_t step, int64_t number);
// "step-00000030.of-0123abcd-1"; without a uid "step-00000030.of-unknown-1".
std::string AsideName(int64_t step, absl::string_view job_uid, int64_t number);

// Returns nothing for names that are not ours.
std::optional<FolderName> ParseFolderName(absl::string_view name);

struct JobEntry {
  std::string path;
  FolderName name;
};
// Returns the folders with our names, in no particular order. Files with such names are not ours.
absl::StatusOr<std::vector<JobEntry>> ListJobFolder(const std::string& job_folder);

// Renames `path` to the first free one of `name(1)`, `name(2)`, ... in the job's folder. Returns
// the new path.
absl::StatusOr<std::string> PutAside(const std::string& job_folder, const std::string& path,
                                     const std::function<std::string(int64_t)>& name);

// Errors: NotFound (no manifest), those of ParseManifest and of ErrnoStatus.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);
// Returns the uid of the run that a manifest which cannot be parsed names; empty if it names none.
std::string RunOfDamaged(const std::string& folder);
// Returns DataLoss if a file of the manifest is missing or has another size.
absl::Status CheckSizes(const std::string& folder, const Manifest& manifest);
// Calls both.
absl::StatusOr<Manifest> GlanceAt(const std::string& folder);

}  // namespace stretto
