// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/replicas.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {
namespace {

struct Replica {
  std::string name;
  bool whole;  // every rank holds it; else the ranks of its tp_rank do
  uint32_t crc;
};

absl::StatusOr<std::vector<Replica>> ReplicasOf(const EngineSpec& spec, RankEngine& engine) {
  std::vector<Replica> replicas;
  for (const ShardTensor& tensor : engine.StateTensors()) {
    const bool whole = tensor.extents == tensor.shape;
    // A shard of one replica belongs to one rank, so there is nothing to compare it with.
    if (!whole && spec.dp_size == 1) continue;
    ASSIGN_OR_RETURN(const void* data, tensor.data.fetch());
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor.dtype, tensor.extents));
    replicas.push_back(
        {tensor.name, whole, Crc32c({static_cast<const char*>(data), static_cast<size_t>(bytes)})});
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

absl::Status CheckReplicas(const EngineSpec& spec, RankEngine& engine, Communicator& control) {
  if (control.size() == 1) return absl::OkStatus();
  absl::StatusOr<std::vector<Replica>> checksums = std::vector<Replica>();
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    checksums = ReplicasOf(spec, engine);
    return checksums.status();
  }));
  const std::vector<Replica> replicas = *std::move(checksums);
  // Every rank lists the same tensors in the same order, so checksums can be compared by position.
  std::vector<uint32_t> mine;
  for (const Replica& replica : replicas) mine.push_back(replica.crc);
  std::vector<uint32_t> all(mine.size() * control.size());
  RETURN_IF_ERROR(control.Run(Collective::AllGather(Words(mine), Words(all))));
  for (size_t i = 0; i < replicas.size(); ++i) {
    // The first holders of a tensor are ranks of the first replica.
    const int firsts = replicas[i].whole ? 1 : spec.tp_size;
    for (int first = 0; first < firsts; ++first) {
      const auto crc_on = [&](int rank) { return all[rank * replicas.size() + i]; };
      std::vector<std::string> others;
      for (int rank = first; rank < control.size(); rank += firsts) {
        if (crc_on(rank) == crc_on(first)) continue;
        others.push_back(absl::StrFormat("%08x on rank %d", crc_on(rank), rank));
      }
      if (others.empty()) continue;
      return absl::DataLossError(absl::StrFormat(
          "tensor %s: found checksum %s, expected %08x as on rank %d: these ranks hold the same "
          "values, and they have drifted apart",
          replicas[i].name, absl::StrJoin(others, ", "), crc_on(first), first));
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto::trainer
