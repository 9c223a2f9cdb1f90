// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/input_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHead = 64 << 10;

// Returns one form for all names of a file: relative or absolute, with or without links.
fs::path Canonical(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path.lexically_normal() : canonical;
}

// The walk may meet its own earlier output, which is not input. Both paths are Canonical.
bool IsOutput(const fs::path& path, const fs::path& prefix) {
  for (const char* suffix :
       {".idx", ".bin", ".bin.tmp", ".idx.tmp", ".tokenizer.json", ".parts.lock", ".mask.idx",
        ".mask.bin", ".mask.bin.tmp", ".mask.idx.tmp"}) {
    if (path == prefix.string() + suffix) return true;
  }
  for (const char* suffix : {".parts", ".tokenizer", ".tokenizer.tmp"}) {
    if (path.parent_path() == prefix.string() + suffix) return true;
  }
  return false;
}

absl::Status Walk(const std::string& folder, const std::string& prefix,
                  std::vector<std::string>* files) {
  std::vector<std::string> found;
  std::error_code error;
  const fs::path root = Canonical(folder), output = Canonical(prefix);
  fs::recursive_directory_iterator entry(folder, error), end;
  while (!error && entry != end) {
    std::error_code ignored;  // a dangling link is not a regular file
    if (entry->is_regular_file(ignored) &&
        !IsOutput(root / entry->path().lexically_relative(folder), output)) {
      found.push_back(entry->path().string());
    }
    entry.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", folder));
  std::sort(found.begin(), found.end());
  files->insert(files->end(), found.begin(), found.end());
  return absl::OkStatus();
}

absl::StatusOr<InputFile> Look(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  std::string head(kHead, '\0');
  const ssize_t read = ::pread(file.get(), head.data(), head.size(), 0);
  if (read < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
  head.resize(read);
  return InputFile{.path = path,
                   .size = info.st_size,
                   .modified = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
                   .json_lines = absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".ndjson"),
                   .binary = head.find('\0') != std::string::npos};
}

}  // namespace

absl::StatusOr<std::vector<InputFile>> ListInputFiles(const std::vector<std::string>& inputs,
                                                      const std::string& prefix) {
  std::vector<std::string> paths;
  for (const std::string& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("input ", input));
    if (fs::is_directory(status)) {
      RETURN_IF_ERROR(Walk(input, prefix, &paths));
    } else if (fs::is_regular_file(status)) {
      paths.push_back(input);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", input, ": found neither, expected a regular file or a folder"));
    }
  }
  if (paths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data prepare: found no file in ", inputs.size(),
                                                   " inputs, expected at least one"));
  }
  std::vector<InputFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(files.emplace_back(), Look(path));
  }
  return files;
}

}  // namespace stretto
