// SPDX-License-Identifier: Apache-2.0

// The small files beside data sets and in checkpoints: the settings of a run, the project of a
// checkpoint, the note about a tokenizer. Each is read or refused with an error that names it, and
// what was read is written and read the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/project.h"
#include "worker/data/tokenizer_info.h"
#include "worker/trainer/settings_file.h"

namespace {

using stretto::fuzz::Folder;

void CheckRefusal(const absl::Status& status, absl::string_view name) {
  STRETTO_CHECK(status.ok() || absl::StrContains(status.message(), name));
}

void ReadSettings(absl::string_view text) {
  const auto settings = stretto::trainer::ParseSettings(text, "settings.json");
  CheckRefusal(settings.status(), "settings.json");
  if (!settings.ok()) return;
  // A field or value that is not UTF-8 was refused, so it can be written.
  const auto again =
      stretto::trainer::ParseSettings(stretto::trainer::SettingsText(*settings), "again");
  STRETTO_CHECK(again.ok() && *again == *settings);
}

void ReadProject(absl::string_view text) {
  const Folder& folder = Folder::Get();
  folder.Write(stretto::kProjectName, text);
  stretto::Manifest manifest;
  STRETTO_CHECK(stretto::ProjectOf(folder.Path(""), manifest)->empty());
  manifest.attachments.emplace_back().name = stretto::kProjectName;
  const auto project = stretto::ProjectOf(folder.Path(""), manifest);
  CheckRefusal(project.status(), stretto::kProjectName);
  stretto::StoredCheckpoint stored;
  stored.folder.path = folder.Path("");
  stored.manifest = manifest;
  std::vector<stretto::StoredCheckpoint> all = {stored};
  const absl::Status kept = stretto::KeepProject(folder.Path(""), "speech", &all);
  STRETTO_CHECK(stretto::CheckProject(folder.Path(""), manifest, "").ok());
  const absl::Status checked = stretto::CheckProject(folder.Path(""), manifest, "speech");
  if (!project.ok()) {
    STRETTO_CHECK(!checked.ok() && kept.ok() && all.size() == 1);
    return;
  }
  STRETTO_CHECK(checked.ok() == (*project == "speech"));
  STRETTO_CHECK(kept.ok() == checked.ok() && all.empty() != kept.ok());
  STRETTO_CHECK(stretto::CheckProject(folder.Path(""), manifest, *project).ok());
  folder.Write(stretto::kProjectName, stretto::ProjectText(*project));
  STRETTO_CHECK(*stretto::ProjectOf(folder.Path(""), manifest) == *project);
}

void ReadNote(absl::string_view text) {
  const Folder& folder = Folder::Get();
  folder.Write("text.tokenizer.json", text);
  const auto note = stretto::ReadDataNote(folder.Path("text"));
  CheckRefusal(note.status(), "text.tokenizer.json");
  const auto info = stretto::ReadTokenizerInfo(folder.Path("text"));
  STRETTO_CHECK(info.status() == note.status());
  if (!note.ok()) return;
  const stretto::TokenizerInfo& tokenizer = note->tokenizer;
  STRETTO_CHECK(tokenizer == *info);
  STRETTO_CHECK(tokenizer.end_of_document >= 0);
  STRETTO_CHECK(tokenizer.end_of_document < tokenizer.vocab_size);
  STRETTO_CHECK(stretto::WriteTokenizerInfo(folder.Path("again"), tokenizer, note->masked).ok());
  const auto again = stretto::ReadDataNote(folder.Path("again"));
  STRETTO_CHECK(again.ok() && again->tokenizer == tokenizer && again->masked == note->masked);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  ReadSettings(text);
  ReadProject(text);
  ReadNote(text);
  return 0;
}
