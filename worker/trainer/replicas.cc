// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/replicas.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {
namespace {

constexpr size_t kTensors = 3;  // of a parameter: master, first moment, second moment

// Who holds the parameters of a model, by Parameter::index.
class Holders {
 public:
  explicit Holders(const EngineSpec& spec)
      : spec_(spec), stages_(ParametersOf(spec.model, spec.tp_size, 0).size()) {
    for (int stage = 0; stage < spec.pp_size; ++stage) {
      for (const Parameter& parameter : ParametersOf(spec, RankAt(spec, {.stage = stage}))) {
        stages_[parameter.index].push_back(stage);
      }
    }
  }

  size_t parameters() const { return stages_.size(); }
  // Returns the ranks that hold the same values of a parameter as the ranks of `tp_rank`; a
  // parameter that is whole is the same on every tp_rank.
  std::vector<Rank> Of(size_t index, bool whole, int tp_rank) const {
    std::vector<Rank> ranks;
    for (int stage : stages_[index]) {
      for (int replica = 0; replica < spec_.dp_size; ++replica) {
        for (int tp = whole ? 0 : tp_rank; tp < (whole ? spec_.tp_size : tp_rank + 1); ++tp) {
          ranks.push_back(
              RankAt(spec_, {.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(tp)}));
        }
      }
    }
    return ranks;
  }

 private:
  const EngineSpec& spec_;
  std::vector<std::vector<int>> stages_;
};

// Returns the checksums of a rank's tensors that other ranks hold too, where all tensors of the
// model have a place; 0 in all others.
absl::StatusOr<std::vector<uint32_t>> ChecksumsOf(const Holders& holders, RankEngine& engine) {
  std::vector<uint32_t> checksums(holders.parameters() * kTensors);
  const std::vector<ShardTensor> tensors = engine.StateTensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = engine.parameters()[i / kTensors];
    if (holders.Of(parameter.index, !parameter.sharded(), 0).size() == 1) continue;
    ASSIGN_OR_RETURN(const void* data, tensors[i].data.fetch());
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensors[i].dtype, tensors[i].extents));
    checksums[parameter.index * kTensors + i % kTensors] =
        Crc32c({static_cast<const char*>(data), static_cast<size_t>(bytes)});
  }
  return checksums;
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
  const Holders holders(spec);
  absl::StatusOr<std::vector<uint32_t>> checksums = std::vector<uint32_t>();
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    checksums = ChecksumsOf(holders, engine);
    return checksums.status();
  }));
  std::vector<uint32_t> mine = *std::move(checksums);
  std::vector<uint32_t> all(mine.size() * control.size());
  RETURN_IF_ERROR(control.Run(Collective::AllGather(Words(mine), Words(all))));
  for (const Parameter& parameter : ParametersOf(spec.model, spec.tp_size, 0)) {
    const bool whole = !parameter.sharded();
    for (size_t tensor = 0; tensor < kTensors; ++tensor) {
      const auto crc_on = [&](Rank rank) {
        return all[rank.position() * mine.size() + parameter.index * kTensors + tensor];
      };
      for (int tp_rank = 0; tp_rank < (whole ? 1 : spec.tp_size); ++tp_rank) {
        const std::vector<Rank> ranks = holders.Of(parameter.index, whole, tp_rank);
        const Rank first = ranks.front();
        std::vector<std::string> others;
        for (Rank rank : ranks) {
          if (crc_on(rank) == crc_on(first)) continue;
          others.push_back(absl::StrFormat("%08x on rank %d", crc_on(rank), rank.value()));
        }
        if (others.empty()) continue;
        return absl::DataLossError(absl::StrFormat(
            "tensor %s: found checksum %s, expected %08x as on rank %d: these ranks hold the same "
            "values, and they have drifted apart",
            NameOfState(parameter, static_cast<Slot>(tensor)), absl::StrJoin(others, ", "),
            crc_on(first), first.value()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto::trainer
