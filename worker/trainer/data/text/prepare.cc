#include "worker/trainer/data/text/prepare.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/data/indexed_dataset.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

// The walk may pass its own earlier output; that is not input.
bool IsOutput(const fs::path& path, const std::string& prefix) {
  for (const char* suffix : {".idx", ".bin", ".bin.tmp", ".idx.tmp", ".tokenizer.json"}) {
    if (path.lexically_normal() == fs::path(prefix + suffix).lexically_normal()) return true;
  }
  return false;
}

absl::Status Walk(const std::string& folder, const std::string& prefix,
                  std::vector<std::string>* files) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  while (!error && entry != end) {
    std::error_code ignored;  // a dangling link is not a regular file
    if (entry->is_regular_file(ignored) && !IsOutput(entry->path(), prefix)) {
      found.push_back(entry->path().string());
    }
    entry.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", folder));
  std::sort(found.begin(), found.end());
  files->insert(files->end(), found.begin(), found.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListFiles(const PrepareOptions& options) {
  std::vector<std::string> files;
  for (const std::string& input : options.inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("input ", input));
    if (fs::is_directory(status)) {
      RETURN_IF_ERROR(Walk(input, options.prefix, &files));
    } else if (fs::is_regular_file(status)) {
      files.push_back(input);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", input, ": found neither, expected a regular file or a folder"));
    }
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data prepare: found no file in ",
                                                   options.inputs.size(),
                                                   " inputs, expected at least one"));
  }
  return files;
}

}  // namespace

absl::StatusOr<PrepareSummary> Prepare(const PrepareOptions& options, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(options));
  const TokenizerInfo& info = tokenizer.info();
  ASSIGN_OR_RETURN(IndexedDatasetWriter writer,
                   IndexedDatasetWriter::Create(options.prefix, TokenTypeFor(info.vocab_size),
                                                options.overwrite));
  PrepareSummary summary;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
    if (text.find('\0') != std::string::npos) {
      ++summary.skipped_binary;
      continue;
    }
    ++summary.files;
    summary.bytes += static_cast<int64_t>(text.size());
    if (text.empty()) continue;
    absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(text);
    if (!tokens.ok()) {
      return absl::Status(tokens.status().code(),
                          absl::StrCat(file, ": ", tokens.status().message()));
    }
    tokens->push_back(info.end_of_document);
    RETURN_IF_ERROR(writer.AddDocument(*tokens));
  }
  summary.documents = writer.document_count();
  summary.tokens = writer.token_count();
  if (summary.tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data prepare: found no text in ", files.size(), " files (", summary.skipped_binary,
        " skipped as binary), expected at least one text file that is not empty"));
  }
  RETURN_IF_ERROR(writer.Finish());
  RETURN_IF_ERROR(WriteTokenizerInfo(options.prefix, info));
  return summary;
}

}  // namespace stretto
