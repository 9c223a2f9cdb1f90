// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/memory_check.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/units.h"
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

absl::StatusOr<ArenaBytes> ArenasOf(const JobConfig& config) {
  return FullestArenas(config.engine, config.rank,
                       {.profiled = config.profile_steps > 0, .evaluated = config.evaluates()});
}

absl::Status CheckMemory(const ArenaBytes& arenas, const JobConfig& config, int64_t available) {
  const int ranks = config.on_gpu ? 1 : config.ranks_on_node;
  const int64_t each = TotalBytes(arenas);
  if (each <= available / ranks) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory of this ", config.on_gpu ? "rank's GPU" : "node", ": found ", FormatBytes(available),
      " available, expected at least ", FormatBytes(each * ranks), " for ", ranks,
      ranks == 1 ? " rank of the job: " : " ranks of the job: ", FormatBytes(each), " each (",
      Largest(arenas), ")"));
}

}  // namespace stretto::trainer
