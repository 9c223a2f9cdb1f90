// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "coordinator/store/etcd/etcd_rows.h"
#include "coordinator/store/etcd/etcd_store.h"
#include "coordinator/store/schema.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kReadCluster = absl::Seconds(2);
constexpr absl::Duration kClose = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::string> ReadEtcdCluster(EtcdClient& client, const EtcdStoreOptions& options) {
  const std::string where = absl::StrCat(options.prefix, " of ", client.name());
  ASSIGN_OR_RETURN(const EtcdRange closed,
                   client.Range({.key = options.prefix + "closed"}, kReadCluster));
  if (!closed.values.empty() && !options.even_if_closed)
    return absl::FailedPreconditionError(absl::StrCat(where, ": ", closed.values[0].value));
  ASSIGN_OR_RETURN(const EtcdRange cluster,
                   client.Range({.key = options.prefix + "cluster"}, kReadCluster));
  // As of the same moment: the leader may be making the cluster.
  ASSIGN_OR_RETURN(
      const EtcdRange schema,
      client.Range({.key = options.prefix + "schema", .revision = cluster.revision}, kReadCluster));
  if (schema.values.empty() && cluster.values.empty()) {
    ASSIGN_OR_RETURN(
        const EtcdRange rest,
        client.Range({.key = options.prefix + "jobs/", .prefix = true, .limit = 1}, kReadCluster));
    if (rest.values.empty() && options.cluster_id.empty()) return "";
    return absl::DataLossError(absl::StrCat(
        where, ": found no cluster, expected ",
        options.cluster_id.empty() ? "that of its jobs" : options.cluster_id,
        ": its contents are lost. Restore a snapshot of etcd, or begin a new cluster under another "
        "prefix with an empty --state-dir"));
  }
  if (schema.values.empty() || cluster.values.empty()) {
    return absl::DataLossError(absl::StrCat(where, ": found no key ",
                                            schema.values.empty() ? "schema" : "cluster",
                                            ", expected one. Restore a snapshot of etcd"));
  }
  ASSIGN_OR_RETURN(const Columns version, DecodeRow("schema", schema.values[0]));
  const auto* number = version.empty() ? nullptr : std::get_if<int64_t>(&version[0]);
  if (number == nullptr || *number != SchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, " has schema version ", number == nullptr ? 0 : *number,
                     "; this build knows version ", SchemaVersion(), ". Use a newer coordinator"));
  }
  ASSIGN_OR_RETURN(const Columns row, DecodeRow("cluster", cluster.values[0]));
  const auto* id = row.empty() ? nullptr : std::get_if<std::string>(&row[0]);
  const std::string found = id == nullptr ? "" : *id;
  if (!options.cluster_id.empty() && found != options.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, " belongs to cluster ", found, "; this coordinator belongs to cluster ",
        options.cluster_id, ". Give each cluster a prefix and a --state-dir of its own"));
  }
  return found;
}

absl::Status SetClosed(EtcdClient& client, Leadership& leadership, const EtcdStoreOptions& options,
                       const std::optional<std::string>& why) {
  ASSIGN_OR_RETURN(const EtcdAnswer answer,
                   client.Commit({.compares = {leadership.Fence()},
                                  .writes = {{.key = options.prefix + "closed", .value = why}},
                                  .reads = {leadership.key()}},
                                 kClose));
  if (answer.succeeded) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("no longer the leader under ", options.prefix, " of ", client.name()));
}

}  // namespace stretto::coordinator
