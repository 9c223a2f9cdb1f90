// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/cluster_names.h"

#include "coordinator/cli/client/client.h"
#include "coordinator/cli/client/config.h"
#include "coordinator/cli/client/names.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/yaml/set_field.h"

namespace stretto::cli {
namespace {

// The user waits for the completion, so it gives up quickly.
constexpr absl::Duration kDeadline = absl::Seconds(1);
constexpr int kMaxNames = 200;

}  // namespace

std::vector<std::string> ClusterNames(const ValueKind& kind, const GivenFlags& given,
                                      const AppEnvironment& environment) {
  if (kind == "CONTEXT") {
    const absl::StatusOr<ConfigFile> config = ReadConfig(ConfigPath(environment.variable));
    return config.ok() ? ContextNames(*config) : std::vector<std::string>();
  }
  if (kind == "STATE") return JobStates();
  if (kind == "FIELD") return SettableFields();
  const auto value = [&](const char* flag) {
    const auto found = given.find(flag);
    return found == given.end() ? "" : found->second;
  };
  const absl::StatusOr<Cluster> cluster =
      ChooseCluster({.context = value("--context"),
                     .cluster = {.coordinator = value("--coordinator"),
                                 .tls = {.ca = value("--tls-ca"),
                                         .certificate = value("--tls-certificate"),
                                         .key = value("--tls-key"),
                                         .token = value(tls::kTokenFlag)}}},
                    environment.variable);
  if (!cluster.ok()) return {};
  Client client(cluster->coordinator, cluster->tls, environment.interrupt);
  client.set_call_deadline(kDeadline);
  return kind == "JOB" ? JobNames(client, kMaxNames) : WorkerNames(client, kMaxNames);
}

}  // namespace stretto::cli
