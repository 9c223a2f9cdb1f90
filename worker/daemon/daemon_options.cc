#include "worker/daemon/daemon_options.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kShortestLease = absl::Seconds(2);  // the daemon shows life every second

absl::Status CheckAddress(const char* flag, const std::string& address, bool allow_beyond) {
  const absl::StatusOr<bool> loopback = IsLoopback(address);
  if (!loopback.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", loopback.status().message()));
  }
  if (*loopback || allow_beyond) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(flag, " ", address,
                   " is beyond loopback, and nothing there is encrypted or "
                   "authenticated; allow it with --insecure-listen-beyond-loopback"));
}

absl::Status MakeAbsolute(const char* flag, std::string* path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(*path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat(flag, " ", *path));
  *path = absolute.lexically_normal().string();
  while (path->size() > 1 && path->back() == '/') path->pop_back();
  return absl::OkStatus();
}

absl::Status MakeFolder(const char* flag, const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat(flag, ": create folder ", path));
  return absl::OkStatus();
}

absl::Status CompleteFolders(DaemonOptions* options) {
  if (options->state_dir.empty()) return absl::InvalidArgumentError("--state-dir is required");
  RETURN_IF_ERROR(MakeAbsolute("--state-dir", &options->state_dir));
  if (SocketPath(*options).size() > kMaxSocketPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state-dir ", options->state_dir, " is too long: its socket path has ",
                     SocketPath(*options).size(), " bytes, at most ", kMaxSocketPathBytes, " fit"));
  }
  if (options->checkpoint_root.empty())
    options->checkpoint_root = options->state_dir + "/checkpoints";
  RETURN_IF_ERROR(MakeAbsolute("--checkpoint-root", &options->checkpoint_root));
  RETURN_IF_ERROR(MakeFolder("--checkpoint-root", options->checkpoint_root));
  if (options->data_root.empty()) {
    options->data_root = options->state_dir + "/data";
    RETURN_IF_ERROR(MakeFolder("--data-root", options->data_root));
  }
  RETURN_IF_ERROR(MakeAbsolute("--data-root", &options->data_root));
  std::error_code error;
  if (!fs::is_directory(options->data_root, error)) {
    return absl::NotFoundError(
        absl::StrCat("--data-root ", options->data_root, " is not a folder"));
  }
  return absl::OkStatus();
}

absl::Status CompleteTrainer(DaemonOptions* options) {
  if (options->trainer_binary.empty()) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    options->trainer_binary = (self.parent_path() / "stretto-trainer").string();
  }
  RETURN_IF_ERROR(MakeAbsolute("--trainer", &options->trainer_binary));
  if (::access(options->trainer_binary.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("--trainer ", options->trainer_binary, " is not an executable file"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string SocketPath(const DaemonOptions& options) { return options.state_dir + "/trainer.sock"; }

absl::Status CompleteOptions(DaemonOptions* options) {
  if (!IsValidName(options->name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--name is \"", options->name,
        "\", expected 1-63 of [a-z0-9-], starting with a letter, not ending with '-'"));
  }
  const bool beyond = options->insecure_beyond_loopback;
  RETURN_IF_ERROR(CheckAddress("--coordinator", options->coordinator, beyond));
  RETURN_IF_ERROR(CheckAddress("--metrics-listen", options->metrics_listen, beyond));
  RETURN_IF_ERROR(CheckAddress("--interface", options->interface_address + ":0", beyond));
  if (options->lease < kShortestLease) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lease is ", absl::FormatDuration(options->lease), ", expected at least ",
                     absl::FormatDuration(kShortestLease)));
  }
  RETURN_IF_ERROR(CompleteTrainer(options));
  return CompleteFolders(options);
}

}  // namespace stretto::daemon
