// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which cluster a command talks to: flags, else environment, else the config file
// $XDG_CONFIG_HOME/stretto/config.yaml (config.proto is its schema, strict as that of job files).

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cli/client/config.pb.h"
#include "proto/tls/files.h"

namespace stretto::cli {

inline constexpr char kDefaultCoordinator[] = "127.0.0.1:7070";

// A coordinator and how to prove to each other who we are; no TLS where the files are empty.
struct Cluster {
  std::string coordinator = "";  // HOST:PORT
  tls::Files tls = {};
};

// The flags that choose a cluster; a flag that was not given is empty.
struct ClusterFlags {
  std::string context = "";
  Cluster cluster = {};
};

// Value of an environment variable; empty when unset.
using Variable = std::function<std::string(const std::string&)>;

// Where the config file is; empty when neither XDG_CONFIG_HOME nor HOME is set.
std::string ConfigPath(const Variable& variable);

// No file: an empty config. InvalidArgument "FILE:LINE:COLUMN: ...".
absl::StatusOr<ConfigFile> ReadConfig(const std::string& path);
absl::StatusOr<ConfigFile> ParseConfig(const std::string& text, const std::string& file);

// Makes the folder too. Comments of the old file are lost.
absl::Status WriteConfig(const std::string& path, const ConfigFile& config);

// In order.
std::vector<std::string> ContextNames(const ConfigFile& config);
// NotFound, with the nearest name.
absl::StatusOr<Context> FindContext(const ConfigFile& config, const std::string& name,
                                    const std::string& file);

// The cluster of `--context`, else of `--coordinator`, else of STRETTO_CONTEXT or
// STRETTO_COORDINATOR, else of current_context, else kDefaultCoordinator. --coordinator and the
// flags for TLS go over what a context says; so do their variables, unless --context is given. The
// config file is read only when a context is needed. Errors: those of ReadConfig and FindContext.
absl::StatusOr<Cluster> ChooseCluster(const ClusterFlags& flags, const Variable& variable);

}  // namespace stretto::cli
