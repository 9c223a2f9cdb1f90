// SPDX-License-Identifier: Apache-2.0

// Encodes in parts. The plan divides the input into parts of a fixed size; each thread takes the
// next unfinished one and encodes it to a small data set in PREFIX.parts. At the end the parts are
// concatenated and the tokenizer's files and note are put beside them. An interrupted run keeps its
// finished parts, which the next run uses if the fingerprint of its plan is the same. A lock keeps
// a second run away.

#include "worker/data/text/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "worker/data/concatenate.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/mask.h"
#include "worker/data/text/conversation.h"
#include "worker/data/text/encode_part.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

// PREFIX.parts: finished parts, and the fingerprint of their plan.
class PartsFolder {
 public:
  // Empties the folder if it belongs to another plan.
  static absl::StatusOr<PartsFolder> Open(const std::string& prefix, const PreparePlan& plan,
                                          bool masked) {
    PartsFolder folder(prefix + ".parts", masked);
    const std::string note = folder.path_ + "/plan";
    const absl::StatusOr<std::string> found = ReadFile(note);
    if (!found.ok() || *found != plan.fingerprint) {
      RETURN_IF_ERROR(folder.CheckOurs());
      std::error_code error;
      fs::remove_all(folder.path_, error);  // leftovers would count as finished parts
      if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", folder.path_));
      fs::create_directory(folder.path_, error);
      if (error) return ErrnoStatus(error.value(), absl::StrCat("make folder ", folder.path_));
      RETURN_IF_ERROR(WriteFileAtomic(note, plan.fingerprint));
    }
    return folder;
  }

  std::string Prefix(size_t part) const { return absl::StrFormat("%s/%06d", path_, part); }
  bool Empty(size_t part) const { return Exists(Prefix(part) + ".empty"); }
  bool Done(size_t part) const {
    const std::string last = masked_ ? MaskPrefix(Prefix(part)) : Prefix(part);
    return Empty(part) || Exists(last + ".idx");
  }
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

 private:
  PartsFolder(std::string path, bool masked) : path_(std::move(path)), masked_(masked) {}

  static bool Exists(const std::string& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
  }

  // The folder may be the user's own, whose files must not be deleted.
  absl::Status CheckOurs() const {
    std::error_code none;
    for (fs::directory_iterator entry(path_, none), end; !none && entry != end;
         entry.increment(none)) {
      const std::string name = entry->path().filename().string();
      const size_t suffix = name.find_first_not_of("0123456789");
      const absl::string_view rest = absl::string_view(name).substr(std::min(suffix, name.size()));
      const bool part =
          suffix >= 6 && (absl::StartsWith(rest, ".bin") || absl::StartsWith(rest, ".idx") ||
                          absl::StartsWith(rest, ".mask.") || absl::StartsWith(rest, ".empty"));
      if (part || absl::StartsWith(name, "plan")) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": found ", name,
                       ", expected only what `data prepare` keeps there; choose another prefix"));
    }
    return absl::OkStatus();
  }

  std::string path_;
  bool masked_;  // parts have masks
};

class Work {
 public:
  Work(const PrepareOptions& options, const Tokenizer& tokenizer, const PreparePlan& plan,
       const PartsFolder& folder)
      : options_(options), tokenizer_(tokenizer), plan_(plan), folder_(folder) {
    progress_.total_bytes = plan.bytes;
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      if (!folder.Done(i)) continue;
      for (const Piece& piece : plan.parts[i].pieces) progress_.bytes += piece.end - piece.begin;
    }
    progress_.resumed_bytes = progress_.bytes;
  }

  // Returns the error of the first part that failed, whichever thread fails first, so that the
  // message is reproducible.
  absl::Status Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.threads; ++i) {
      threads.emplace_back([this] { EncodeParts(); });
    }
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mu_);
    return status_;
  }

 private:
  void EncodeParts() {
    while (!failed_) {
      const size_t part = next_++;
      if (part >= plan_.parts.size()) return;
      if (folder_.Done(part)) continue;
      const absl::Status status =
          EncodePart(plan_, plan_.parts[part], tokenizer_, options_.lines, folder_.Prefix(part),
                     [this](int64_t bytes) { Add(bytes); });
      if (status.ok()) continue;
      const MutexLock lock(mu_);
      failed_ = true;
      if (status_.ok() || part < failed_part_) {
        status_ = status;
        failed_part_ = part;
      }
    }
  }

  void Add(int64_t bytes) {
    const MutexLock lock(mu_);
    progress_.bytes += bytes;
    if (options_.progress) options_.progress(progress_);
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const PreparePlan& plan_;
  const PartsFolder& folder_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  Mutex mu_;
  PrepareProgress progress_ GUARDED_BY(mu_);
  absl::Status status_ GUARDED_BY(mu_);
  size_t failed_part_ GUARDED_BY(mu_) = 0;
};

// Two concurrent runs with one prefix would mix their parts.
absl::StatusOr<FileDescriptor> LockPrefix(const std::string& prefix) {
  const std::string path = prefix + ".parts.lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(prefix, ": another `data prepare` is writing it; wait until it ends"));
  }
  return lock;
}

absl::Status NoText(const PrepareSummary& summary) {
  return absl::InvalidArgumentError(
      absl::StrCat("data prepare: found no text in ", summary.files + summary.skipped_binary,
                   " files (", summary.skipped_binary,
                   " skipped as binary), expected at least one text file that is not empty"));
}

absl::Status ExpectLines(const std::vector<InputFile>& files) {
  for (const InputFile& file : files) {
    if (file.json_lines || file.binary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path,
                     ": found a text file, expected *.jsonl or *.ndjson, because "
                     "--completions takes lines of JSON"));
  }
  return absl::OkStatus();
}

// Makes one data set of the parts, with its mask and the note that names it.
absl::Status Join(const PrepareOptions& options, const Tokenizer& tokenizer,
                  const std::vector<DatasetPart>& parts) {
  const std::string mask = MaskPrefix(options.prefix);
  RETURN_IF_ERROR(StageTokenizerFiles(options.prefix, tokenizer.files()));
  // A new mask is complete before the new tokens, which remove an old one, get their place.
  if (options.lines.chat != nullptr) {
    std::vector<DatasetPart> masks = parts;
    for (DatasetPart& part : masks) part.prefix = MaskPrefix(part.prefix);
    RETURN_IF_ERROR(StageConcatenation(masks, mask));
  }
  absl::Status joined = ConcatenateDatasets(parts, options.prefix);
  if (joined.ok() && options.lines.chat != nullptr) joined = CommitDataset(mask);
  if (!joined.ok()) {
    for (const char* suffix : {".bin.tmp", ".idx.tmp"}) ::unlink((mask + suffix).c_str());
    return joined;
  }
  RETURN_IF_ERROR(CommitTokenizerFiles(options.prefix));
  return WriteTokenizerInfo(options.prefix, tokenizer.info(), options.lines.chat != nullptr);
}

}  // namespace

absl::StatusOr<PrepareSummary> Prepare(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (!options.overwrite) RETURN_IF_ERROR(CheckNoDataset(options.prefix));
  ASSIGN_OR_RETURN(std::vector<InputFile> files, ListInputFiles(options.inputs, options.prefix));
  const ChatFormat* const chat = options.lines.chat;
  if (chat != nullptr) {
    RETURN_IF_ERROR(ExpectLines(files));
    RETURN_IF_ERROR(CheckMarkers(*chat, tokenizer));
  }
  PrepareSummary summary;
  for (const InputFile& file : files) ++(file.binary ? summary.skipped_binary : summary.files);
  ASSIGN_OR_RETURN(const PreparePlan plan,
                   MakePreparePlan(std::move(files), options.sizes, tokenizer, options.lines));
  summary.bytes = plan.bytes;
  if (plan.parts.empty()) return NoText(summary);

  ASSIGN_OR_RETURN(const FileDescriptor lock, LockPrefix(options.prefix));
  const absl::Cleanup unlock = [&] { ::unlink((options.prefix + ".parts.lock").c_str()); };
  ASSIGN_OR_RETURN(const PartsFolder folder,
                   PartsFolder::Open(options.prefix, plan, chat != nullptr));
  RETURN_IF_ERROR(Work(options, tokenizer, plan, folder).Run());
  std::vector<DatasetPart> parts;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (folder.Empty(i)) continue;
    parts.push_back({folder.Prefix(i), !plan.parts[i].pieces.back().ends_document});
  }
  if (parts.empty()) {
    folder.Remove();
    return NoText(summary);
  }
  RETURN_IF_ERROR(Join(options, tokenizer, parts));
  folder.Remove();
  ASSIGN_OR_RETURN(const IndexedDataset dataset, IndexedDataset::Open(options.prefix));
  summary.documents = dataset.document_count();
  summary.trained_tokens = summary.tokens = dataset.token_count();
  if (chat != nullptr) {
    ASSIGN_OR_RETURN(const auto mask, OpenMask(options.prefix, dataset));
    ASSIGN_OR_RETURN(summary.trained_tokens, CountTrained(*mask, 0, summary.tokens));
  }
  return summary;
}

}  // namespace stretto
