// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a function on several ranks at once, each a thread with a communicator of a local group.

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "worker/comm/local/local.h"

namespace stretto::trainer {

// Returns what `run` returned, by rank.
inline std::vector<absl::Status> OnRanks(
    size_t n, const std::function<absl::Status(size_t rank, Communicator& control)>& run) {
  const auto group = LocalGroup::Create(static_cast<int>(n));
  std::vector<absl::Status> found(n);
  std::vector<std::jthread> ranks;
  for (size_t rank = 0; rank < n; ++rank) {
    ranks.emplace_back([&, rank] { found[rank] = run(rank, *group[rank]); });
  }
  ranks.clear();
  return found;
}

}  // namespace stretto::trainer
