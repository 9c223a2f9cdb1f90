// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves the whole state of a cluster between its database and etcd, while no coordinator runs: the
// jobs, the workers, the newest epoch and the cluster's id. It is in one of the two places at any
// time. What was left stays as it was, but nobody opens it by mistake: the database gets another
// name, and etcd a key `closed` with the reason.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store/etcd/etcd_client.h"
#include "coordinator/store/etcd/etcd_store.h"
#include "coordinator/store/etcd/leadership.h"

namespace stretto::coordinator {

struct MoveReport {
  int64_t jobs = 0, workers = 0;
  std::string cluster_id;
  std::string left;  // where the earlier state is now
};

// Both read the target again and compare it with the source before anybody may use it. Whoever
// calls them has locked the folder of the database, and leads. After a crash neither place, or the
// source alone, can be opened; the message of whoever tries says what to do.
// Errors: NotFound (no source), AlreadyExists (the target is not empty; names what was found),
// those of OpenSqliteStore and OpenEtcdStore.

// The database at `path` becomes PATH.moved-N.
absl::StatusOr<MoveReport> MoveToEtcd(const std::string& path, EtcdClient& client,
                                      Leadership& leadership, const EtcdStoreOptions& options);
absl::StatusOr<MoveReport> MoveToDatabase(EtcdClient& client, Leadership& leadership,
                                          const EtcdStoreOptions& options, const std::string& path);

}  // namespace stretto::coordinator
