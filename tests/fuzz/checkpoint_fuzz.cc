// SPDX-License-Identifier: Apache-2.0

// Headers and manifests of checkpoints: any bytes give a value or an error.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  stretto::ParseSafetensorsHeader(text, static_cast<int64_t>(size) * 3, "fuzz")
      .status()
      .IgnoreError();
  stretto::ParseManifest(text, "fuzz").status().IgnoreError();
  stretto::ParseTrainingState(text, "fuzz").status().IgnoreError();
  stretto::ParseShardInfo(text).status().IgnoreError();
  return 0;
}
