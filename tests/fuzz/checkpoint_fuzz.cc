// SPDX-License-Identifier: Apache-2.0

// Headers and manifests of checkpoints, states and what ranks exchange: any bytes give a value or
// an error, and what was read is written and read the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/safetensors.h"

namespace {

using namespace stretto;  // NOLINT: all of this target is about it

void ReadManifest(absl::string_view text) {
  const auto manifest = ParseManifest(text, "fuzz");
  if (!manifest.ok()) return;
  const std::string written = ManifestText(*manifest);
  const auto again = ParseManifest(written, "fuzz");
  // Held-out state without the data's name is left out.
  const bool is_whole = !manifest->state.held_out.of.empty() || !manifest->state.held_out.loss;
  STRETTO_CHECK(again.ok() && (!is_whole || ManifestText(*again) == written));
  for (const FileRecord& file : manifest->attachments) {
    STRETTO_CHECK(manifest->FindAttachment(file.name)->name == file.name);
  }
  STRETTO_CHECK(manifest->FindAttachment("/") == nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = fuzz::TextOf(data, size);
  ParseSafetensorsHeader(text, static_cast<int64_t>(size) * 3, "fuzz").status().IgnoreError();
  ReadManifest(text);
  const auto state = ParseTrainingState(text, "fuzz");
  if (state.ok()) {
    const std::string written = TrainingStateText(*state);
    const auto again = ParseTrainingState(written, "fuzz");
    STRETTO_CHECK(again.ok() && TrainingStateText(*again) == written);
  }
  const auto info = ParseShardInfo(text);
  if (info.ok()) {
    const auto again = ParseShardInfo(ShardInfoText(*info));
    STRETTO_CHECK(again.ok() && *again == *info);
  }
  return 0;
}
