// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/replicas.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

struct Replica {
  std::string name;
  uint32_t crc;
};

absl::StatusOr<std::vector<Replica>> ReplicasOf(RankEngine& engine) {
  std::vector<Replica> replicas;
  for (const ShardTensor& tensor : engine.StateTensors()) {
    // A shard belongs to one rank, so there is nothing to compare it with.
    if (tensor.extents != tensor.shape) continue;
    ASSIGN_OR_RETURN(const void* data, tensor.data.fetch());
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor.dtype, tensor.extents));
    replicas.push_back(
        {tensor.name, Crc32c({static_cast<const char*>(data), static_cast<size_t>(bytes)})});
  }
  return replicas;
}

TensorView Words(std::vector<uint32_t>& words) {
  return {.data = words.data(),
          .dtype = DType::kI32,
          .shape = {static_cast<int64_t>(words.size()), 1, 1, 1},
          .rank = 1};
}

}  // namespace

absl::Status CheckReplicas(RankEngine& engine, Communicator& control) {
  if (control.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Replica> replicas, ReplicasOf(engine));
  // Every rank lists the same tensors in the same order, so checksums can be compared by position.
  std::vector<uint32_t> mine;
  for (const Replica& replica : replicas) mine.push_back(replica.crc);
  std::vector<uint32_t> all(mine.size() * control.size());
  RETURN_IF_ERROR(control.Run(Collective::AllGather(Words(mine), Words(all))));
  for (size_t i = 0; i < replicas.size(); ++i) {
    std::vector<std::string> others;
    for (size_t at = i; at < all.size(); at += replicas.size()) {
      if (all[at] == all[i]) continue;
      others.push_back(absl::StrFormat("%08x on rank %d", all[at], at / replicas.size()));
    }
    if (others.empty()) continue;
    return absl::DataLossError(absl::StrFormat(
        "tensor %s: found checksum %s, expected %08x as on rank 0: every rank holds it, and they "
        "have drifted apart",
        replicas[i].name, absl::StrJoin(others, ", "), all[i]));
  }
  return absl::OkStatus();
}

}  // namespace stretto::trainer
