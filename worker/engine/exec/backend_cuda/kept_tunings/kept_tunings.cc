// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/kept_tunings/kept_tunings.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr int64_t kMostBytes = 64 << 20;  // a choice has some 200

}  // namespace

KeptTunings::KeptTunings(cuda::Tunings tunings, const std::string& folder, const std::string& root)
    : tunings_(std::move(tunings)),
      folder_(folder),
      path_(absl::StrCat(folder, "/", tunings_.FileName())) {
  if (folder_.empty()) return;
  Confine(root, Links::kNone);
  const absl::Status status = Read(&tunings_);
  if (!status.ok()) spdlog::warn("algorithms are measured again: {}", status.ToString());
}

void KeptTunings::Save() {
  if (folder_.empty()) return;
  const absl::Status status = Write();
  if (!status.ok() && !std::exchange(warned_, true))
    spdlog::warn("measured algorithms are not kept: {}", status.ToString());
}

absl::Status KeptTunings::Read(cuda::Tunings* tunings) const {
  const absl::StatusOr<std::string> text = ReadSmallFile(path_, kMostBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const absl::Status status = tunings->Parse(*text);
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(path_, ": ", status.message())};
}

absl::Status KeptTunings::Write() const {
  cuda::Tunings merged = tunings_;
  Read(&merged).IgnoreError();  // it was logged when it was loaded, or is replaced
  RETURN_IF_ERROR(MakeFolders(folder_));
  return WriteFileAtomic(path_, merged.Print());
}

}  // namespace stretto
