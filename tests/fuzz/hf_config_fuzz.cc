// SPDX-License-Identifier: Apache-2.0

// What says which model a folder holds (config.json, the index of shards, a checkpoint's note): any
// bytes give a model that the engine takes, or an error. An input may be an index, a line "==" and
// the bytes of a file of tensors, which then is each of its files, or the only one where there is
// no index.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/model_limits.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/tensor_folder.h"

namespace {

void OpenFolder(absl::string_view index, absl::string_view tensors) {
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  std::filesystem::remove_all(folder.Path("model"));
  std::filesystem::create_directory(folder.Path("model"));
  const auto write = [&](const std::string& name, absl::string_view bytes) {
    folder.Write(absl::StrCat("model/", name), bytes);
  };
  if (index.empty()) {
    write(stretto::kHfWeightsName, tensors);
  } else {
    write(stretto::kHfIndexName, index);
  }
  const auto files = stretto::ParseHfIndex(index, "fuzz");
  int written = 0;
  if (files.ok()) {
    for (const auto& [tensor, file] : *files) {
      if (file != stretto::kHfIndexName && ++written < 4) write(file, tensors);
    }
  }
  const bool single = std::filesystem::exists(folder.Path("model/model.safetensors"));
  const auto opened = stretto::TensorFolder::Open(folder.Path("model"));
  if (!opened.ok()) return;
  for (const auto& [name, entry] : opened->tensors()) {
    if (entry.file->Find(name) != entry.tensor) abort();
    if (!single && files->count(name) == 0) abort();
  }
}

}  // namespace

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
  const size_t cut = text.find("\n==\n");
  if (cut != text.npos) OpenFolder(text.substr(0, cut), text.substr(cut + 4));
  const auto files = stretto::ParseHfIndex(text, "fuzz");
  if (!files.ok()) return 0;
  for (const auto& [tensor, file] : *files) {
    if (file.empty() || file.find('/') != std::string::npos || file.front() == '.') abort();
  }
  return 0;
}
