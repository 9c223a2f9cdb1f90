// SPDX-License-Identifier: Apache-2.0

// Makes a row for each entry of a job's folder: size and time from the file system, training state
// and held-out loss from its manifest, tokens from its model note. Entries that are being written,
// that failed their checks, or whose manifest or sizes are wrong have their problem in the row. The
// best checkpoint is the one that JOB/best denotes.

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
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/checkpoint/lineage.h"
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
  bool best = false;                        // has the lowest held-out loss
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

// Marks the row that JOB/best denotes. Nothing is marked where that cannot be told: several runs
// have checkpoints here, or a manifest cannot be read.
void MarkBest(const std::string& job_folder, const std::vector<JobEntry>& entries,
              std::vector<Row>* rows) {
  std::vector<StoredCheckpoint> stored;
  for (const JobEntry& entry : entries) {
    if (entry.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(entry.path);
    if (!manifest.ok()) return;
    stored.push_back({entry, *std::move(manifest)});
  }
  if (!KeepOneRun(job_folder, &stored).ok()) return;
  const StoredCheckpoint* const best = BestOf(stored);
  if (best == nullptr) return;
  const std::string name = std::filesystem::path(best->folder.path).filename().string();
  for (Row& row : *rows) row.best = row.name == name;
}

std::optional<double> LossOf(const Row& row) {
  return row.state ? row.state->held_out.loss : std::nullopt;
}

std::string StateText(const Row& row) {
  return absl::StrCat(row.problem.empty() ? "whole" : row.problem, row.best ? ", best" : "");
}

std::string Table(const std::vector<Row>& rows, absl::Time now) {
  int name_width = 4;
  for (const Row& row : rows) name_width = std::max<int>(name_width, row.name.size());
  const auto line = [&](absl::string_view name, absl::string_view size, absl::string_view age,
                        absl::string_view samples, absl::string_view tokens, absl::string_view tp,
                        absl::string_view held_out, absl::string_view state) {
    return absl::StrFormat("%-*s  %9s  %6s  %9s  %7s  %3s  %8s  %s\n", name_width, name, size, age,
                           samples, tokens, tp, held_out, state);
  };
  std::string text = line("NAME", "SIZE", "AGE", "SAMPLES", "TOKENS", "TP", "HELD-OUT", "STATE");
  for (const Row& row : rows) {
    text += line(row.name, FormatBytes(row.bytes),
                 stretto::FormatDuration(std::max(absl::ZeroDuration(), now - row.written)),
                 row.state ? absl::StrCat(row.state->consumed_samples) : "-",
                 row.tokens ? FormatCount(static_cast<double>(*row.tokens)) : "-",
                 row.state ? absl::StrCat(row.state->tp_size) : "-",
                 LossOf(row) ? absl::StrFormat("%.4f", *LossOf(row)) : "-", StateText(row));
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
    if (LossOf(row)) entry["held_out_loss"] = *LossOf(row);
    if (LossOf(row)) entry["best"] = row.best;
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
  MarkBest(job_folder, entries, &rows);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.step, a.name) < std::tie(b.step, b.name);
  });
  return format == OutputFormat::kTable ? Table(rows, now) : TextOf(ListOf(rows), format);
}

}  // namespace stretto
