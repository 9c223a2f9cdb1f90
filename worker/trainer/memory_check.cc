// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/memory_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/plan/arenas.h"

namespace stretto::trainer {
namespace {

constexpr size_t kNamedArenas = 3;

// "optimizer 2.0 GiB, activation 1.5 GiB, gradient 1.0 GiB"
std::string Largest(const ArenaBytes& arenas) {
  std::vector<size_t> order(arenas.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return arenas[a] > arenas[b]; });
  order.resize(kNamedArenas);
  return absl::StrJoin(order, ", ", [&](std::string* out, size_t arena) {
    absl::StrAppend(out, NameOf(static_cast<ArenaClass>(arena)), " ", FormatBytes(arenas[arena]));
  });
}

}  // namespace

absl::StatusOr<std::vector<RankArenas>> ArenasOf(const JobConfig& config) {
  const std::vector<Rank> own = {config.rank};
  const bool alone = config.on_gpu || config.ranks_on_node.empty();
  // Ranks of a stage have arenas of equal sizes. With ZeRO, those of replicas differ by the rounding
  // of the pieces that they update.
  std::map<std::pair<int, int>, ArenaBytes> known;  // by stage and replica
  std::vector<RankArenas> ranks;
  for (Rank rank : alone ? own : config.ranks_on_node) {
    const Place place = PlaceOf(config.engine, rank);
    const auto [arenas, fresh] =
        known.try_emplace({place.stage, config.engine.zero > 0 ? place.replica : 0});
    if (fresh) {
      ASSIGN_OR_RETURN(
          arenas->second,
          FullestArenas(config.engine, rank,
                        {.profiled = config.profile_steps > 0,
                         .evaluated_batches = config.evaluates() ? config.evaluation.batches : 0}));
    }
    ranks.push_back({rank, arenas->second});
  }
  return ranks;
}

absl::Status CheckMemory(const std::vector<RankArenas>& ranks, bool on_gpu, int64_t available) {
  int64_t total = 0;
  const RankArenas* largest = &ranks.front();
  for (const RankArenas& rank : ranks) {
    total += TotalBytes(rank.arenas);
    if (TotalBytes(rank.arenas) > TotalBytes(largest->arenas)) largest = &rank;
  }
  if (total <= available) return absl::OkStatus();
  const int64_t most = TotalBytes(largest->arenas);
  const bool alike = total == most * std::ssize(ranks);
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory of this ", on_gpu ? "rank's GPU" : "node", ": found ", FormatBytes(available),
      " available, expected at least ", FormatBytes(total), " for ", ranks.size(),
      ranks.size() == 1 ? " rank of the job: " : " ranks of the job: ",
      alike ? "" : absl::StrCat("rank ", largest->rank.value(), " has "), FormatBytes(most),
      alike ? " each (" : " (", Largest(largest->arenas), ")"));
}

}  // namespace stretto::trainer
