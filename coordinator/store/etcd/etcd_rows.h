// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of keys: rows with their checksum. Internal to store/etcd.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/etcd/etcd_client.h"
#include "coordinator/store/record_columns.h"

namespace stretto::coordinator {

std::string EncodeRow(absl::string_view table, const Columns& columns);
// Errors: DataLoss, which names the key.
absl::StatusOr<Columns> DecodeRow(absl::string_view table, const EtcdValue& row);

// Tables of one row beyond those of records. The cluster's row is that of SQLite.
inline Columns ClusterColumns(const std::string& id) { return {id}; }
Columns SchemaColumns();  // of this build's version
// The newest commit, and the number of parts of it that are to be written; 0: all is. Every
// transaction has an id of its own.
struct CommitRow {
  std::string id;
  int64_t parts = 0;
  std::string transaction = "";
};
inline Columns ColumnsOf(const CommitRow& commit) {
  return {commit.id, commit.parts, commit.transaction};
}
absl::StatusOr<CommitRow> DecodeCommit(const EtcdValue& row);

}  // namespace stretto::coordinator
