// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures moves of a tensor between meshes: one process per rank, over real connections.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/reshard_options.h"

namespace stretto::bench {

// A transfer of a plan between two ranks.
struct Transfer {
  int from = 0, to = 0;
  int64_t bytes = 0;
};

struct ReshardResult {
  std::string name;  // of the case
  NamedRules rules;
  std::vector<double> runs;     // in seconds, of the slowest rank
  double planned_seconds = 0;   // by the plan's model of the link
  double bound_seconds = 0;     // no plan takes less: the busiest node's bytes on its interface
  std::vector<Transfer> plain;  // what `send` moves, for peers that do the same

  double median() const;
};

// What a tensor takes on one interface, frames included.
double WireSeconds(const ReshardOptions& options);

// Every rank calls this together; all get the same result, by case and rules. `say` gets lines for
// the user. Errors: those of communicators and executors; Internal, a receiver has wrong elements.
absl::StatusOr<std::vector<ReshardResult>> MeasureReshard(
    const ReshardOptions& options, const std::function<void(const std::string&)>& say);

}  // namespace stretto::bench
