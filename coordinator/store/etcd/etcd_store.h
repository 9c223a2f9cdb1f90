// SPDX-License-Identifier: Apache-2.0
#pragma once
// A JobStore in etcd, for the coordinator that leads (leadership.h). Keys under its prefix:
//
//   leader               who leads
//   closed               why nobody may open the store, if so
//   schema, cluster, epoch, jobs/ID, workers/ID
//                        records, with the columns and checksums that they have in SQLite
//   commit               the id of the newest commit, and its number of parts
//   parts/COMMIT/NUMBER  what a commit writes that does not fit into one transaction
//
// Every transaction compares the leader's key and the revision of `commit`, and changes the latter:
// so an earlier leader is refused, and a transaction that was sent twice, or that etcd applies
// late, takes effect at most once.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store/etcd/etcd_client.h"
#include "coordinator/store/etcd/leadership.h"
#include "coordinator/store/job_store.h"

namespace stretto::coordinator {

struct EtcdStoreOptions {
  std::string prefix = "";  // as LeaderOptions
  // The cluster that this coordinator belongs to; empty: any.
  std::string cluster_id = "";
  // Of a cluster that is made; empty: a new id.
  std::string new_cluster_id = "";
  // Whether one that is closed can be opened.
  bool even_if_closed = false;
  // Of one transaction. By default etcd takes 128 operations and 1.5 MiB.
  size_t max_operations = 100;
  size_t max_bytes = 1 << 20;
  // How long a commit may take, after which its outcome is not known.
  absl::Duration commit_within = absl::Seconds(2);
  // etcd keeps every value that a key ever had until a compaction drops them. After this number of
  // commits, those before the last as many are dropped.
  int64_t commits_per_compaction = 1000;
};

// Returns the id of the cluster under the prefix; empty if there is nothing yet. Errors:
// FailedPrecondition (closed, with the reason; of a newer schema, or of another cluster than
// options.cluster_id; names both), DataLoss (damaged, or nothing although options.cluster_id is
// set), those of EtcdClient.
absl::StatusOr<std::string> ReadEtcdCluster(EtcdClient& client, const EtcdStoreOptions& options);

// Closes what is under the prefix: nobody may open it, for the reason `why`; nullopt opens it
// again. Only the leader can. Errors: Aborted (another one leads), those of EtcdClient.
absl::Status SetClosed(EtcdClient& client, Leadership& leadership, const EtcdStoreOptions& options,
                       const std::optional<std::string>& why);

// Opens the store, and makes a new cluster if there is nothing under the prefix. `client` and
// `leadership` are borrowed and must outlive it. Commit fails with Aborted once another one leads.
// An outcome that is not known (Unavailable) is found out before the next commit. Errors: those of
// ReadEtcdCluster; DataLoss (a record is damaged; names its key).
absl::StatusOr<std::unique_ptr<JobStore>> OpenEtcdStore(EtcdClient& client, Leadership& leadership,
                                                        const EtcdStoreOptions& options);

}  // namespace stretto::coordinator
