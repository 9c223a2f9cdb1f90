// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a commit changes, cut into parts that each fit into a transaction. Internal to store/etcd.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/store/etcd/etcd_client.h"

namespace stretto::coordinator {

// By key, because a transaction may write a key only once; nullopt erases it.
using EtcdWrites = std::map<std::string, std::optional<std::string>>;

// Returns at least one part. Errors: InvalidArgument (one write alone is too large; names it).
absl::StatusOr<std::vector<EtcdWrites>> SplitWrites(const EtcdWrites& writes, size_t max_operations,
                                                    size_t max_bytes);

// A part as the value of a key. Errors: DataLoss.
std::string EncodePart(const EtcdWrites& writes);
absl::StatusOr<EtcdWrites> DecodePart(const EtcdValue& row);

}  // namespace stretto::coordinator
