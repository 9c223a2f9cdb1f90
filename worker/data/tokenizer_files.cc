// SPDX-License-Identifier: Apache-2.0
#include "worker/data/tokenizer_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

std::string Folder(const std::string& prefix) { return prefix + ".tokenizer"; }
std::string Staged(const std::string& prefix) { return prefix + ".tokenizer.tmp"; }

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", path)) : absl::OkStatus();
}

absl::Status RemoveFilesIn(const std::string& folder) {
  for (const char* name : kTokenizerFiles) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
      return ErrnoStatus(errno, absl::StrCat("remove ", path));
    }
  }
  ::rmdir(folder.c_str());  // fails if other files, which are not ours, are there
  return absl::OkStatus();
}

}  // namespace

absl::Status StageTokenizerFiles(const std::string& prefix,
                                 const std::vector<TokenizerFile>& files) {
  RETURN_IF_ERROR(RemoveFilesIn(Staged(prefix)));
  if (files.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(MakeFolder(Staged(prefix)));
  for (const TokenizerFile& file : files) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(file.path));
    RETURN_IF_ERROR(WriteFileAtomic(absl::StrCat(Staged(prefix), "/", file.name), content));
  }
  return absl::OkStatus();
}

absl::Status CommitTokenizerFiles(const std::string& prefix) {
  if (::access(Staged(prefix).c_str(), F_OK) != 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakeFolder(Folder(prefix)));
  for (const char* name : kTokenizerFiles) {
    const std::string from = absl::StrCat(Staged(prefix), "/", name);
    const std::string to = absl::StrCat(Folder(prefix), "/", name);
    if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    }
  }
  ::rmdir(Staged(prefix).c_str());
  return SyncPath(Folder(prefix));
}

absl::Status RemoveTokenizerFiles(const std::string& prefix) {
  return RemoveFilesIn(Folder(prefix));
}

}  // namespace stretto
