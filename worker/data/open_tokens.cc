// SPDX-License-Identifier: Apache-2.0
#include "worker/data/open_tokens.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/llmc_tokens.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> Beneath(const std::string& path, const std::string& root) {
  if (root.empty()) return path;
  return PathBeneath(root, path);
}

// Returns the files that match `path`, sorted by name.
absl::StatusOr<std::vector<std::string>> Match(const std::string& path, const std::string& root) {
  if (!absl::StrContains(path, '*')) {
    ASSIGN_OR_RETURN(std::string file, Beneath(path, root));
    return std::vector<std::string>{std::move(file)};
  }
  const fs::path whole(path);
  const fs::path parent = whole.parent_path();
  ASSIGN_OR_RETURN(const std::string folder,
                   parent.empty() && !root.empty() ? root : Beneath(parent.string(), root));
  const std::string pattern =
      absl::StrReplaceAll(whole.filename().string(), {{"\\", "\\\\"}, {"?", "\\?"}, {"[", "\\["}});
  std::vector<std::string> found;
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries,
                   ListFolder(folder.empty() ? "." : folder));
  for (const FolderEntry& entry : entries) {
    if (::fnmatch(pattern.c_str(), entry.name.c_str(), 0) == 0)
      found.push_back((parent / entry.name).string());
  }
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat(kLlmcScheme, path, ": found no file of that name, expected at least one"));
  }
  std::sort(found.begin(), found.end());
  for (std::string& file : found) {
    ASSIGN_OR_RETURN(file, Beneath(file, root));
  }
  return found;
}

template <class Stream>
absl::StatusOr<std::unique_ptr<TokenStream>> OnHeap(absl::StatusOr<Stream> stream) {
  if (!stream.ok()) return stream.status();
  return std::make_unique<Stream>(*std::move(stream));
}

}  // namespace

absl::StatusOr<std::string> DataPath(const std::string& name, const std::string& root) {
  return Beneath(std::string(absl::StripPrefix(name, kLlmcScheme)), root);
}

absl::StatusOr<std::unique_ptr<TokenStream>> OpenTokens(const std::string& name,
                                                        const std::string& root) {
  ASSIGN_OR_RETURN(const std::string path, DataPath(name, root));
  if (!absl::StartsWith(name, kLlmcScheme)) {
    for (const char* suffix : {".idx", ".bin"}) {
      RETURN_IF_ERROR(Beneath(name + suffix, root).status());
    }
    return OnHeap(IndexedDataset::Open(path));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   Match(name.substr(sizeof(kLlmcScheme) - 1), root));
  return OnHeap(LlmcTokens::Open(absl::StrCat(kLlmcScheme, path), files));
}

}  // namespace stretto
