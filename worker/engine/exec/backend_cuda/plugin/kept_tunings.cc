// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/plugin/kept_tunings.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

namespace stretto {

KeptTunings::KeptTunings(cuda::Tunings tunings, std::string folder)
    : tunings_(std::move(tunings)), folder_(std::move(folder)) {
  if (folder_.empty()) return;
  const absl::Status status = tunings_.Load(folder_);
  if (!status.ok()) spdlog::warn("algorithms are measured again: {}", status.ToString());
}

void KeptTunings::Save() {
  if (folder_.empty()) return;
  std::error_code ignored;  // Save reports a folder that does not exist
  std::filesystem::create_directories(folder_, ignored);
  const absl::Status status = tunings_.Save(folder_);
  if (!status.ok() && !std::exchange(warned_, true))
    spdlog::warn("measured algorithms are not kept: {}", status.ToString());
}

}  // namespace stretto
