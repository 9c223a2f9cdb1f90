// SPDX-License-Identifier: Apache-2.0

// Makes and parses the names of folders, lists the folders that have one, and checks a checkpoint
// by its manifest and the sizes of its files alone. What is put aside gets a number that is free.

#include "worker/checkpoint/job_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {
namespace {

constexpr size_t kUidDigits = 8;
constexpr char kUnknownRun[] = "unknown";

bool IsRun(absl::string_view run) {
  return !run.empty() && std::all_of(run.begin(), run.end(), absl::ascii_isalnum);
}

// Parses "EPOCH" or "EPOCH-RUN".
bool ParseTemporary(absl::string_view text, FolderName* name) {
  const size_t dash = text.find('-');
  if (dash != absl::string_view::npos) name->run = std::string(text.substr(dash + 1));
  return (dash == absl::string_view::npos || IsRun(name->run)) &&
         absl::SimpleAtoi(text.substr(0, dash), &name->suffix);
}

// Parses "RUN-NUMBER".
bool ParseAside(absl::string_view text, FolderName* name) {
  const size_t dash = text.find('-');
  if (dash == absl::string_view::npos) return false;
  name->run = std::string(text.substr(0, dash));
  return IsRun(name->run) && absl::SimpleAtoi(text.substr(dash + 1), &name->suffix);
}

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

std::string ShortUid(absl::string_view job_uid) {
  return std::string(job_uid.substr(0, kUidDigits));
}

std::string TemporaryName(int64_t step, int64_t epoch, absl::string_view job_uid) {
  return absl::StrCat(CheckpointName(step), ".tmp-", epoch, job_uid.empty() ? "" : "-",
                      ShortUid(job_uid));
}

std::string BadName(int64_t step, int64_t number) {
  return absl::StrCat(CheckpointName(step), ".bad-", number);
}

std::string AsideName(int64_t step, absl::string_view job_uid, int64_t number) {
  return absl::StrCat(CheckpointName(step), ".of-",
                      job_uid.empty() ? kUnknownRun : ShortUid(job_uid), "-", number);
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
  bool ours = false;
  if (absl::ConsumePrefix(&rest, ".tmp-")) {
    parsed.kind = FolderName::Kind::kTemporary;
    ours = ParseTemporary(rest, &parsed);
  } else if (absl::ConsumePrefix(&rest, ".bad-")) {
    parsed.kind = FolderName::Kind::kBad;
    ours = absl::SimpleAtoi(rest, &parsed.suffix);
  } else if (absl::ConsumePrefix(&rest, ".of-")) {
    parsed.kind = FolderName::Kind::kAside;
    ours = ParseAside(rest, &parsed);
  }
  if (!ours || parsed.suffix < 0) return std::nullopt;
  return parsed;
}

absl::StatusOr<std::vector<JobEntry>> ListJobFolder(const std::string& job_folder) {
  std::vector<JobEntry> found;
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ListFolder(job_folder));
  for (const FolderEntry& entry : entries) {
    const auto name = ParseFolderName(entry.name);
    if (name.has_value() && entry.folder)
      found.push_back({absl::StrCat(job_folder, "/", entry.name), *name});
  }
  return found;
}

absl::StatusOr<std::string> PutAside(const std::string& job_folder, const std::string& path,
                                     const std::function<std::string(int64_t)>& name) {
  for (int64_t number = 1;; ++number) {
    std::string aside = absl::StrCat(job_folder, "/", name(number));
    std::error_code ignored;
    if (std::filesystem::exists(aside, ignored)) continue;
    RETURN_IF_ERROR(RenameFile(path, aside));
    return aside;
  }
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseManifest(text, path);
}

std::string RunOfDamaged(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/", kManifestName));
  if (!text.ok()) return "";
  // The first is that of the checkpoint itself; that of its parent comes later.
  const std::string field = "\"job_uid\": \"";
  const size_t at = text->find(field);
  if (at == std::string::npos) return "";
  const size_t begin = at + field.size(), end = text->find('"', begin);
  return end == std::string::npos ? "" : text->substr(begin, end - begin);
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
