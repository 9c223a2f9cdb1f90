// SPDX-License-Identifier: Apache-2.0

// Makes a row for each entry of a job's folder: size and time from the file system, training state
// from its manifest, tokens from its model note. Entries that are being written, that failed their
// checks, or whose manifest or sizes are wrong have their problem in the row.

#include "worker/tool/list_checkpoints.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/exchange/model_note.h"
#include "worker/tool/trained_tokens.h"

namespace stretto {
namespace {

struct Row {
  std::string name;
  int64_t step = 0;
  FolderName::Kind kind = FolderName::Kind::kFinal;
  int64_t bytes = 0;  // of all its files
  absl::Time written = absl::InfinitePast();
  std::optional<TrainingState> state = {};  // if the manifest can be read
  std::optional<int64_t> tokens = {};       // if the checkpoint has a model note
  std::string problem = "";                 // empty: whole
};

int64_t BytesIn(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const auto size = entry->file_size(ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

absl::Time ChangeOf(const std::string& folder) {
  struct stat info;
  const std::string manifest = absl::StrCat(folder, "/", kManifestName);
  if (::stat(manifest.c_str(), &info) != 0 && ::stat(folder.c_str(), &info) != 0) {
    return absl::InfinitePast();
  }
  return absl::TimeFromTimespec(info.st_mtim);
}

Row Describe(const JobEntry& entry) {
  Row row{.name = std::filesystem::path(entry.path).filename().string(),
          .step = entry.name.step,
          .kind = entry.name.kind,
          .bytes = BytesIn(entry.path),
          .written = ChangeOf(entry.path)};
  if (row.kind == FolderName::Kind::kTemporary) {
    row.problem = "being written, or left by a crash";
    return row;
  }
  const absl::StatusOr<Manifest> manifest = ReadManifest(entry.path);
  if (!manifest.ok()) {
    row.problem = std::string(manifest.status().message());
    return row;
  }
  row.state = manifest->state;
  const std::string note_path = absl::StrCat(entry.path, "/", kModelNoteName);
  if (const auto text = ReadFile(note_path); text.ok()) {
    if (const auto note = ParseModelNote(*text, note_path); note.ok()) {
      row.tokens = TokensOf(*row.state, note->model);
    }
  }
  const absl::Status sizes = CheckSizes(entry.path, *manifest);
  if (row.kind == FolderName::Kind::kBad) {
    row.problem = "failed its checks, put aside";
  } else if (row.kind == FolderName::Kind::kAside) {
    row.problem = "of another run, put aside";
  } else if (!sizes.ok()) {
    row.problem = std::string(sizes.message());
  }
  return row;
}

std::string Table(const std::vector<Row>& rows, absl::Time now) {
  int name_width = 4;
  for (const Row& row : rows) name_width = std::max<int>(name_width, row.name.size());
  const auto line = [&](absl::string_view name, absl::string_view size, absl::string_view age,
                        absl::string_view samples, absl::string_view tokens, absl::string_view tp,
                        absl::string_view state) {
    return absl::StrFormat("%-*s  %9s  %6s  %9s  %7s  %3s  %s\n", name_width, name, size, age,
                           samples, tokens, tp, state);
  };
  std::string text = line("NAME", "SIZE", "AGE", "SAMPLES", "TOKENS", "TP", "STATE");
  for (const Row& row : rows) {
    text += line(row.name, FormatBytes(row.bytes),
                 stretto::FormatDuration(std::max(absl::ZeroDuration(), now - row.written)),
                 row.state ? absl::StrCat(row.state->consumed_samples) : "-",
                 row.tokens ? FormatCount(static_cast<double>(*row.tokens)) : "-",
                 row.state ? absl::StrCat(row.state->tp_size) : "-",
                 row.problem.empty() ? "whole" : row.problem);
  }
  return text;
}

Document ListOf(const std::vector<Row>& rows) {
  Document list = Document::array();
  for (const Row& row : rows) {
    Document entry;
    entry["name"] = row.name;
    entry["step"] = row.step;
    entry["bytes"] = row.bytes;
    entry["written"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", row.written, absl::UTCTimeZone());
    if (row.state) {
      entry["epoch"] = row.state->epoch;
      entry["samples"] = row.state->consumed_samples;
      entry["tp_size"] = row.state->tp_size;
    }
    if (row.tokens) entry["tokens"] = *row.tokens;
    entry["whole"] = row.problem.empty();
    if (!row.problem.empty()) entry["problem"] = row.problem;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

absl::StatusOr<std::string> ListCheckpoints(const std::string& job_folder, OutputFormat format,
                                            absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<JobEntry> entries, ListJobFolder(job_folder));
  if (entries.empty()) {
    return absl::NotFoundError(absl::StrCat(
        job_folder, ": found no checkpoint, expected the folder of a job, with step-NNNNNNNN"));
  }
  std::vector<Row> rows;
  for (const JobEntry& entry : entries) rows.push_back(Describe(entry));
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.step, a.name) < std::tie(b.step, b.name);
  });
  return format == OutputFormat::kTable ? Table(rows, now) : TextOf(ListOf(rows), format);
}

}  // namespace stretto
