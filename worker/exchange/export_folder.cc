// SPDX-License-Identifier: Apache-2.0

// Creates a temporary folder beside the target. Finish renames it there, or exchanges the two
// atomically if an export is to be overwritten and the file system can; otherwise by renames. A
// folder is replaced only if all its files could be an export's, so that a mistyped path does no
// damage.

#include "worker/exchange/export_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/exchange/export_model.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/model_source.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

bool IsOfAnExport(const std::string& name) {
  if (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".safetensors.index.json")) {
    return true;
  }
  for (const char* ours : {kHfConfigName, kGenerationConfigName, kLlmcName}) {
    if (name == ours) return true;
  }
  return std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), name) !=
         std::end(kTokenizerFiles);
}

// A mistyped path must not delete a folder of something else.
absl::Status CheckReplaceable(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;  // an unreadable entry counts as foreign
    if (entry->is_regular_file(unknown) && IsOfAnExport(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": found ", name, ", expected nothing but an export to overwrite"));
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", path));
  return absl::OkStatus();
}

std::string PlaceOf(const std::string& path) {
  std::string place = fs::path(path).lexically_normal().string();
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  return place;
}

}  // namespace

absl::Status CheckOutput(const std::string& path, bool overwrite) {
  const std::string place = PlaceOf(path);
  const fs::path parent = fs::path(place).parent_path();
  std::error_code error;
  if (!parent.empty() && !fs::is_directory(parent, error)) {
    return absl::NotFoundError(absl::StrCat(
        parent.string(), ": found no such folder, expected one in which to create ", path));
  }
  if (!fs::exists(fs::symlink_status(place, error))) return absl::OkStatus();
  if (!overwrite) return absl::AlreadyExistsError(absl::StrCat(path, ": already exists"));
  return CheckReplaceable(place);
}

absl::Status SwapByRenames(const std::string& a, const std::string& b) {
  const std::string aside = a + ".aside";
  const auto move = [](const std::string& from, const std::string& to) {
    return std::rename(from.c_str(), to.c_str()) == 0
               ? absl::OkStatus()
               : ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
  };
  RETURN_IF_ERROR(move(b, aside));
  if (const absl::Status moved = move(a, b); !moved.ok()) {
    RETURN_IF_ERROR(move(aside, b));
    return moved;
  }
  return move(aside, a);
}

absl::StatusOr<ExportFolder> ExportFolder::Create(const std::string& path, bool overwrite) {
  RETURN_IF_ERROR(CheckOutput(path, overwrite));
  std::string place = PlaceOf(path);
  const std::string first = absl::StrCat(place, ".tmp-", ::getpid());
  std::string temporary = first;
  // A killed run may have left a folder with this process id.
  for (int other = 1; ::mkdir(temporary.c_str(), 0777) != 0; ++other) {
    if (errno != EEXIST) return ErrnoStatus(errno, absl::StrCat("make folder ", temporary));
    temporary = absl::StrCat(first, "-", other);
  }
  return ExportFolder(std::move(place), std::move(temporary), overwrite);
}

ExportFolder::ExportFolder(ExportFolder&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      overwrite_(other.overwrite_) {}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

absl::Status ExportFolder::Finish() {
  RETURN_IF_ERROR(SyncPath(temporary_));
  const std::string what = absl::StrCat("rename ", temporary_, " to ", path_);
  if (std::rename(temporary_.c_str(), path_.c_str()) == 0) {
    temporary_.clear();
  } else if (!overwrite_ || (errno != ENOTEMPTY && errno != EEXIST)) {
    return ErrnoStatus(errno, what);
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE)) {
    if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, what);
    RETURN_IF_ERROR(SwapByRenames(temporary_, path_));
  }
  const std::string parent = fs::path(path_).parent_path().string();
  return SyncPath(parent.empty() ? "." : parent);
}

}  // namespace stretto
