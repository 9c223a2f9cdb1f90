// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cluster that a command talks to: from flags, else the environment, else the config file
// $XDG_CONFIG_HOME/stretto/config.yaml. config.proto is its schema, as strict as that of job files.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cli/client/config.pb.h"
#include "proto/tls/files.h"

namespace stretto::cli {

inline constexpr char kDefaultCoordinator[] = "127.0.0.1:7070";

// A coordinator and the TLS files of both sides' identities; no TLS if the files are empty. A
// token, or a certificate and its key, take the place of the other where both come from different
// sources.
struct Cluster {
  std::string coordinator = "";  // HOST:PORT, or several, separated by commas
  tls::Files tls = {};
};

// The flags that choose a cluster; empty if not given.
struct ClusterFlags {
  std::string context = "";
  Cluster cluster = {};
};

// Errors: InvalidArgument unless `addresses` is of the form of Cluster::coordinator.
absl::Status CheckCoordinator(const std::string& addresses);

// Value of an environment variable; empty when unset.
using Variable = std::function<std::string(const std::string&)>;

// The path of the config file; empty if neither XDG_CONFIG_HOME nor HOME is set.
std::string ConfigPath(const Variable& variable);

// A missing file is an empty config. Errors: InvalidArgument "FILE:LINE:COLUMN: ...".
absl::StatusOr<ConfigFile> ReadConfig(const std::string& path);
absl::StatusOr<ConfigFile> ParseConfig(const std::string& text, const std::string& file);

// Creates the folder if needed. Comments of the old file are lost.
absl::Status WriteConfig(const std::string& path, const ConfigFile& config);

// The names in the order of the file.
std::vector<std::string> ContextNames(const ConfigFile& config);
// Errors: NotFound, with the nearest name.
absl::StatusOr<Context> FindContext(const ConfigFile& config, const std::string& name,
                                    const std::string& file);

// Returns the cluster of `--context`, else of `--coordinator`, else of STRETTO_CONTEXT or
// STRETTO_COORDINATOR, else of current_context, else kDefaultCoordinator. --coordinator and the TLS
// flags override the values of a context; so do their variables, unless --context is given. The
// config file is read only if a context is needed. Without TLS files, those of a `stretto up` of
// this user at that address are taken (base/local_cluster.h). Errors: those of ReadConfig,
// FindContext and CheckCoordinator.
absl::StatusOr<Cluster> ChooseCluster(const ClusterFlags& flags, const Variable& variable);

}  // namespace stretto::cli
