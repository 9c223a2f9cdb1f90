// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/sum_in_turn.h"

#include <algorithm>
#include <numeric>

#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::trainer {

absl::StatusOr<double> SumInTurn(const EngineSpec& spec, Communicator& control,
                                 const std::vector<double>& mine) {
  ASSIGN_OR_RETURN(const auto of_rank, ExchangeNumbers(control, mine));
  const int head = HeadStageOf(spec);
  const auto shares = static_cast<size_t>(SharesOf(spec, head));
  double sum = 0;
  for (size_t first = 0; first < mine.size(); first += shares) {  // of a micro-batch
    for (int replica = 0; replica < ReplicasOf(spec, head); ++replica) {
      const std::vector<double>& theirs =
          of_rank[RankAt(spec, {.stage = head, .replica = replica}).position()];
      for (size_t share = 0; share < shares; ++share) sum += theirs[first + share];
    }
  }
  return sum;
}

absl::StatusOr<double> MeanLossOfStep(const EngineSpec& spec, Communicator& control,
                                      const std::vector<double>& mine, int64_t targets) {
  double sum = std::accumulate(mine.begin(), mine.end(), 0.0);
  if (spec.dp_size > 1 || spec.pp_size > 1) {
    ASSIGN_OR_RETURN(sum, SumInTurn(spec, control, mine));
  }
  return sum / static_cast<double>(std::max<int64_t>(1, targets));
}

}  // namespace stretto::trainer
