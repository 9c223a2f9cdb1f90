// SPDX-License-Identifier: Apache-2.0

// What says which model a folder holds (config.json, the index of shards, a checkpoint's note): any
// bytes give a model that the engine takes, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/fuzz_input.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/model_limits.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/tensor_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  const auto model = stretto::ParseHfConfig(text, "fuzz");
  if (model.ok() && !stretto::CheckModel(*model, "fuzz").ok()) abort();
  const auto note = stretto::ParseModelNote(text, "fuzz");
  if (note.ok()) {
    const std::string again = stretto::ModelNoteText(*note);
    const auto read = stretto::ParseModelNote(again, "fuzz");
    if (!read.ok() || stretto::ModelNoteText(*read) != again) abort();
  }
  const auto files = stretto::ParseHfIndex(text, "fuzz");
  if (!files.ok()) return 0;
  for (const auto& [tensor, file] : *files) {
    if (file.empty() || file.find('/') != std::string::npos || file.front() == '.') abort();
  }
  return 0;
}
