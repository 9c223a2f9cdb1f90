// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/replicas.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/model/buckets.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {
namespace {

constexpr size_t kTensors = std::size(kSlots);  // of a parameter

// Returns the checksums of what a rank holds of each tensor and other ranks hold too, where all
// tensors of the model have a place; 0 in all others.
absl::StatusOr<std::vector<uint32_t>> ChecksumsOf(const AllHolders& holders, Rank rank,
                                                  RankEngine& engine) {
  std::vector<uint32_t> checksums(holders.size() * kTensors);
  for (size_t i = 0; i < engine.parameters().size(); ++i) {
    const size_t index = engine.parameters()[i].index;
    const bool compared =
        std::any_of(holders[index].begin(), holders[index].end(), [&](const Holders& part) {
          return part.ranks.size() > 1 &&
                 std::find(part.ranks.begin(), part.ranks.end(), rank) != part.ranks.end();
        });
    if (!compared) continue;
    for (size_t tensor = 0; tensor < kTensors; ++tensor) {
      ASSIGN_OR_RETURN(const absl::Span<const float> held, engine.Held(i, kSlots[tensor]));
      checksums[index * kTensors + tensor] =
          Crc32c({reinterpret_cast<const char*>(held.data()), held.size() * sizeof(float)});
    }
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
  const AllHolders holders = HoldersOf(spec);
  absl::StatusOr<std::vector<uint32_t>> checksums = std::vector<uint32_t>();
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    checksums = ChecksumsOf(holders, Rank::Of(control.rank()), engine);
    return checksums.status();
  }));
  std::vector<uint32_t> mine = *std::move(checksums);
  std::vector<uint32_t> all(mine.size() * control.size());
  RETURN_IF_ERROR(control.Run(Collective::AllGather(Words(mine), Words(all))));
  for (const Parameter& parameter : ParametersOf(spec.model, 1, 0)) {
    for (const Holders& part : holders[parameter.index]) {
      for (size_t tensor = 0; tensor < kTensors; ++tensor) {
        const auto crc_on = [&](Rank rank) {
          return all[rank.position() * mine.size() + parameter.index * kTensors + tensor];
        };
        const Rank first = part.ranks.front();
        std::vector<std::string> others;
        for (Rank rank : part.ranks) {
          if (crc_on(rank) == crc_on(first)) continue;
          others.push_back(absl::StrFormat("%08x on rank %d", crc_on(rank), rank.value()));
        }
        if (others.empty()) continue;
        return absl::DataLossError(absl::StrFormat(
            "tensor %s: found checksum %s, expected %08x as on rank %d: these ranks hold the same "
            "values, and they have drifted apart",
            NameOfState(parameter, kSlots[tensor]), absl::StrJoin(others, ", "), crc_on(first),
            first.value()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto::trainer
