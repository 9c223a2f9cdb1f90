// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/sum_in_turn.h"

#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::trainer {

absl::StatusOr<double> SumInTurn(const EngineSpec& spec, Communicator& control,
                                 const std::vector<double>& mine) {
  ASSIGN_OR_RETURN(const auto of_rank, ExchangeNumbers(control, mine));
  double sum = 0;
  for (size_t turn = 0; turn < mine.size(); ++turn) {
    for (int replica = 0; replica < spec.dp_size; ++replica) {
      sum +=
          of_rank[RankAt(spec, {.stage = spec.pp_size - 1, .replica = replica}).position()][turn];
    }
  }
  return sum;
}

}  // namespace stretto::trainer
