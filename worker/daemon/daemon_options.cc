// SPDX-License-Identifier: Apache-2.0

// Checks each option and names the flag in every error, then fills in values that derive from
// others: folders, the trainer's binary beside our own, absolute paths. An address beyond loopback
// needs TLS or the flag that allows it.

#include "worker/daemon/daemon_options.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/address.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"
#include "worker/daemon/log_bound.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kShortestLease = absl::Seconds(2);  // the daemon sends Alive every second

// `remedy` describes the flags that would allow another address.
absl::Status CheckAddress(const char* flag, const std::string& text, bool allow_beyond,
                          const char* remedy) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address.status().message()));
  }
  if (allow_beyond || IsLoopback(*address)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      flag, " ", text, " is beyond loopback, and nothing there is encrypted or authenticated; ",
      remedy));
}

absl::Status CheckAddresses(const DaemonOptions& options) {
  const bool all = options.insecure_beyond_loopback;
  const absl::StatusOr<std::vector<std::string>> coordinators =
      ParseAddressList(options.coordinator);
  if (!coordinators.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--coordinator: ", coordinators.status().message()));
  }
  for (const std::string& coordinator : *coordinators) {
    RETURN_IF_ERROR(CheckAddress("--coordinator", coordinator, all || !options.tls.empty(),
                                 "give --tls-ca, --tls-certificate and --tls-key, or allow it with "
                                 "--insecure-listen-beyond-loopback"));
  }
  RETURN_IF_ERROR(CheckAddress("--metrics-listen", options.metrics_listen,
                               all || options.insecure_metrics_beyond_loopback,
                               "allow it with --insecure-metrics-beyond-loopback"));
  const bool ipv6 = absl::StrContains(options.interface_address, ":");
  return CheckAddress("--interface",
                      ipv6 ? absl::StrCat("[", options.interface_address, "]:0")
                           : absl::StrCat(options.interface_address, ":0"),
                      all || options.insecure_tensors_beyond_loopback,
                      "allow it with --insecure-tensors-beyond-loopback");
}

absl::Status CheckTls(const DaemonOptions& options) {
  if (options.tls.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const tls::Identity identity,
                   tls::CheckFiles(options.tls, tls::Role::kWorker, Clock::Real().Now()));
  if (identity.name.empty() || identity.name == options.name) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--tls-certificate ", options.tls.certificate, ": found the certificate of worker ",
      identity.name, ", expected one of --name ", options.name, " or without a name"));
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
  if (options->max_log_bytes < kLeastLogBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--max-trainer-log-bytes: found ",
                                                   options->max_log_bytes, ", expected at least ",
                                                   kLeastLogBytes));
  }
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

absl::StatusOr<PreparedRights> RightsOf(const DaemonOptions& options, size_t slots) {
  return PrepareRights(
      options.rights,
      {options.state_dir, options.data_root, options.checkpoint_root, options.trainer_binary},
      static_cast<int>(slots));
}

absl::Status CompleteOptions(DaemonOptions* options) {
  if (!IsValidName(options->name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--name is \"", options->name,
        "\", expected 1-63 of [a-z0-9-], starting with a letter, not ending with '-'"));
  }
  RETURN_IF_ERROR(CheckAddresses(*options));
  RETURN_IF_ERROR(CheckTls(*options));
  if (options->lease < kShortestLease) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lease is ", absl::FormatDuration(options->lease), ", expected at least ",
                     absl::FormatDuration(kShortestLease)));
  }
  RETURN_IF_ERROR(CompleteTrainer(options));
  return CompleteFolders(options);
}

}  // namespace stretto::daemon
