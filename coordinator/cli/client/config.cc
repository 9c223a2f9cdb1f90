// SPDX-License-Identifier: Apache-2.0

// Reads and writes the config file by its schema, and chooses the cluster: each source (context of
// the file, environment, flags) overrides the one before, field by field. Relative paths in the
// file are relative to its folder.

#include "coordinator/cli/client/config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/base/local_cluster.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "proto/base/address.h"
#include "proto/base/files.h"
#include "proto/base/nearest_name.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

void Overlay(const Cluster& over, Cluster* cluster) {
  const auto set = [](const std::string& from, std::string* to) {
    if (!from.empty()) *to = from;
  };
  set(over.coordinator, &cluster->coordinator);
  // One who says how he calls does not call in two ways.
  if (!over.tls.token.empty()) cluster->tls.certificate = cluster->tls.key = "";
  if (!over.tls.certificate.empty() || !over.tls.key.empty()) cluster->tls.token = "";
  set(over.tls.token, &cluster->tls.token);
  set(over.tls.ca, &cluster->tls.ca);
  set(over.tls.certificate, &cluster->tls.certificate);
  set(over.tls.key, &cluster->tls.key);
}

Cluster ToCluster(const Context& context, const std::filesystem::path& folder) {
  const auto resolve = [&](const std::string& file) {
    return file.empty() ? file : (folder / file).lexically_normal().string();
  };
  return {.coordinator = context.coordinator(),
          .tls = {.ca = resolve(context.tls().ca()),
                  .certificate = resolve(context.tls().certificate()),
                  .key = resolve(context.tls().key()),
                  .token = resolve(context.tls().token_file())}};
}

// The certificates of this user's own `stretto up` need not be named.
void UseLocalCertificates(const Variable& variable, Cluster* cluster) {
  const absl::StatusOr<Address> address = ParseAddress(cluster->coordinator);
  if (!address.ok() || !IsLoopback(*address)) return;
  const std::string folder = FindLocalCluster(UserStateDir(variable), address->port);
  if (folder.empty()) return;
  cluster->tls = {.ca = folder + "/ca.crt",
                  .certificate = absl::StrCat(folder, "/", kUserOfUp, ".crt"),
                  .key = absl::StrCat(folder, "/", kUserOfUp, ".key")};
}

}  // namespace

absl::Status CheckCoordinator(const std::string& addresses) {
  const absl::StatusOr<std::vector<std::string>> list = ParseAddressList(addresses);
  if (!list.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(list.status().message(), ", or several, separated by commas"));
  }
  for (const std::string& address : *list) {
    if (ParseAddress(address)->port > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("found \"", address, "\", expected a port from 1 to 65535"));
  }
  return absl::OkStatus();
}

std::string ConfigPath(const Variable& variable) {
  std::string folder = variable("XDG_CONFIG_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.config";
  return folder.empty() ? "" : folder + "/stretto/config.yaml";
}

absl::StatusOr<ConfigFile> ParseConfig(const std::string& text, const std::string& file) {
  ConfigFile config;
  const std::string rest(absl::StripAsciiWhitespace(text));
  if (rest.empty()) return config;
  ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  Positions positions;
  RETURN_IF_ERROR(FillMessage(root, file, "", &config, &positions));
  for (const std::string& name : ContextNames(config)) {
    const std::string& coordinator = config.contexts().at(name).coordinator();
    const std::string path = absl::StrCat("contexts[", name, "]");
    if (coordinator.empty()) {
      return ErrorAt(file, positions[path],
                     absl::StrCat(path, ": found no coordinator, expected HOST:PORT"));
    }
    const absl::Status valid = CheckCoordinator(coordinator);
    if (valid.ok()) continue;
    return ErrorAt(file, positions[path + ".coordinator"],
                   absl::StrCat(path, ".coordinator: ", valid.message()));
  }
  return config;
}

absl::StatusOr<ConfigFile> ReadConfig(const std::string& path) {
  if (path.empty()) return ConfigFile();
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return ConfigFile();
  if (!text.ok()) return text.status();
  return ParseConfig(*text, path);
}

absl::Status WriteConfig(const std::string& path, const ConfigFile& config) {
  if (path.empty()) {
    return absl::FailedPreconditionError(
        "found no folder for the config file, expected HOME or XDG_CONFIG_HOME to be set");
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "make folder " + folder);
  return WriteFileAtomic(path, ToYaml(config, Zeros::kOmitted));
}

std::vector<std::string> ContextNames(const ConfigFile& config) {
  std::vector<std::string> names;
  for (const auto& [name, context] : config.contexts()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<Context> FindContext(const ConfigFile& config, const std::string& name,
                                    const std::string& file) {
  const auto found = config.contexts().find(name);
  if (found != config.contexts().end()) return found->second;
  const std::vector<std::string> names = ContextNames(config);
  const std::string near = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      file.empty() ? "config" : file, ": no context \"", name, "\"; ",
      !near.empty()   ? absl::StrCat("did you mean \"", near, "\"?")
      : names.empty() ? "expected one created by `stretto config set-context`"
                      : absl::StrCat("expected one of: ", absl::StrJoin(names, ", "))));
}

absl::StatusOr<Cluster> ChooseCluster(const ClusterFlags& flags, const Variable& variable) {
  const Cluster environment{.coordinator = variable("STRETTO_COORDINATOR"),
                            .tls = {.ca = variable("STRETTO_TLS_CA"),
                                    .certificate = variable("STRETTO_TLS_CERTIFICATE"),
                                    .key = variable("STRETTO_TLS_KEY"),
                                    .token = variable("STRETTO_TOKEN_FILE")}};
  const bool by_flag = !flags.context.empty() || !flags.cluster.coordinator.empty();
  std::string name = by_flag ? flags.context : variable("STRETTO_CONTEXT");
  const bool addressed = by_flag || !environment.coordinator.empty();
  Cluster cluster;
  if (!name.empty() || !addressed) {
    const std::string path = ConfigPath(variable);
    ASSIGN_OR_RETURN(const ConfigFile config, ReadConfig(path));
    if (name.empty()) name = config.current_context();
    if (!name.empty()) {
      ASSIGN_OR_RETURN(const Context context, FindContext(config, name, path));
      cluster = ToCluster(context, std::filesystem::path(path).parent_path());
    }
  }
  if (flags.context.empty()) Overlay(environment, &cluster);
  Overlay(flags.cluster, &cluster);
  if (cluster.coordinator.empty()) cluster.coordinator = kDefaultCoordinator;
  if (const absl::Status valid = CheckCoordinator(cluster.coordinator); !valid.ok()) {
    // Those of the file have been checked with it.
    const bool flag = !flags.cluster.coordinator.empty();
    return absl::InvalidArgumentError(
        absl::StrCat(flag ? "--coordinator" : "STRETTO_COORDINATOR", ": ", valid.message()));
  }
  if (cluster.tls.empty()) UseLocalCertificates(variable, &cluster);
  return cluster;
}

}  // namespace stretto::cli
