// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/job_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {
namespace {

absl::Status CheckSize(const std::string& folder, const FileRecord& file) {
  const std::string path = absl::StrCat(folder, "/", file.name);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    return absl::DataLossError(
        absl::StrCat(path, ": found no file, expected ", file.size, " bytes"));
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("stat ", path));
  if (size == static_cast<uintmax_t>(file.size)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": size: found ", size, " bytes, expected ", file.size));
}

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("step-%08d", step); }

std::string TemporaryName(int64_t step, int64_t epoch) {
  return absl::StrCat(CheckpointName(step), ".tmp-", epoch);
}

std::string BadName(int64_t step, int64_t number) {
  return absl::StrCat(CheckpointName(step), ".bad-", number);
}

std::optional<FolderName> ParseFolderName(absl::string_view name) {
  const absl::string_view whole = name;
  if (!absl::ConsumePrefix(&name, "step-")) return std::nullopt;
  FolderName parsed;
  const size_t dot = name.find('.');
  if (!absl::SimpleAtoi(name.substr(0, dot), &parsed.step) || parsed.step < 0) return std::nullopt;
  if (dot == absl::string_view::npos) {
    if (whole != CheckpointName(parsed.step)) return std::nullopt;
    return parsed;
  }
  absl::string_view rest = name.substr(dot);
  if (absl::ConsumePrefix(&rest, ".tmp-")) {
    parsed.kind = FolderName::Kind::kTemporary;
  } else if (absl::ConsumePrefix(&rest, ".bad-")) {
    parsed.kind = FolderName::Kind::kBad;
  } else {
    return std::nullopt;
  }
  if (!absl::SimpleAtoi(rest, &parsed.suffix) || parsed.suffix < 0) return std::nullopt;
  return parsed;
}

absl::StatusOr<std::vector<JobEntry>> ListJobFolder(const std::string& job_folder) {
  namespace fs = std::filesystem;
  std::vector<JobEntry> found;
  std::error_code error;
  for (fs::directory_iterator entry(job_folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (auto name = ParseFolderName(entry->path().filename().string())) {
      found.push_back({entry->path().string(), *name});
    }
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", job_folder));
  return found;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseManifest(text, path);
}

absl::Status CheckSizes(const std::string& folder, const Manifest& manifest) {
  for (const auto* files : {&manifest.files, &manifest.attachments}) {
    for (const FileRecord& file : *files) RETURN_IF_ERROR(CheckSize(folder, file));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> GlanceAt(const std::string& folder) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
  RETURN_IF_ERROR(CheckSizes(folder, manifest));
  return manifest;
}

}  // namespace stretto
