#include "worker/trainer/exchange/export_folder.h"

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
#include "worker/trainer/exchange/export_model.h"
#include "worker/trainer/exchange/hf_config.h"
#include "worker/trainer/exchange/model_source.h"

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

// So that a mistyped path does not cost a folder of something else.
absl::Status CheckReplaceable(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_regular_file() && IsOfAnExport(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": found ", name, ", expected nothing but an export to overwrite"));
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExportFolder> ExportFolder::Create(const std::string& path, bool overwrite) {
  std::string place = fs::path(path).lexically_normal().string();
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  std::error_code error;
  if (fs::exists(fs::symlink_status(place, error))) {
    if (!overwrite) return absl::AlreadyExistsError(absl::StrCat(path, ": is there already"));
    RETURN_IF_ERROR(CheckReplaceable(place));
  }
  std::string temporary = absl::StrCat(place, ".tmp-", ::getpid());
  if (::mkdir(temporary.c_str(), 0777) != 0) {
    return ErrnoStatus(errno, absl::StrCat("make folder ", temporary));
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
  } else if (!overwrite_ || (errno != ENOTEMPTY && errno != EEXIST) ||
             ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE)) {
    return ErrnoStatus(errno, what);
  }
  const std::string parent = fs::path(path_).parent_path().string();
  return SyncPath(parent.empty() ? "." : parent);
}

}  // namespace stretto
