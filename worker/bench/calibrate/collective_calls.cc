// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/collective_calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "proto/base/status_macros.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {

int CallsFor(double seconds, double least, int most) {
  return seconds * most < least ? most
                                : static_cast<int>(std::max(2.0, std::ceil(least / seconds)));
}

absl::StatusOr<std::unique_ptr<Executor>> CollectiveCalls::Make(const CollectiveCase& collective,
                                                                int calls) {
  if (collective.ranks == 0) return nullptr;
  CaseCopies none;
  none.step.lanes.push_back({"compute"});
  return MakeBeside(KernelCase{}, std::move(none), collective, calls);
}

absl::StatusOr<std::unique_ptr<Executor>> CollectiveCalls::MakeBeside(
    const KernelCase& timed, CaseCopies computations, const CollectiveCase& collective, int calls) {
  if (collective.ranks > 0) AddCalls(collective, calls, job_.groups(), &computations.step);
  return MakeOf(timed, std::move(computations));
}

absl::StatusOr<std::unique_ptr<Executor>> CollectiveCalls::MakeReleased(
    const KernelCase& timed, CaseCopies computations, const CollectiveCase& collective,
    int release) {
  if (collective.ranks > 0) AddReleased(collective, release, job_.groups(), &computations.step);
  return MakeOf(timed, std::move(computations));
}

absl::StatusOr<std::unique_ptr<Executor>> CollectiveCalls::MakeOf(const KernelCase& timed,
                                                                  CaseCopies operations) {
  operations.step.rank = job_.rank();
  operations.step.world_size = world_size_;
  return MakeFilled(timed, std::move(operations), job_.links(), job_.backend());
}

absl::StatusOr<double> CollectiveCalls::Run(Executor* executor) {
  if (executor != nullptr) RETURN_IF_ERROR(executor->Run());
  return job_.Slowest(executor == nullptr ? 0 : SpanSeconds(executor->intervals()));
}

absl::StatusOr<double> CollectiveCalls::RunFromLast(Executor* executor) {
  double mine = std::numeric_limits<double>::infinity();
  if (executor != nullptr) {
    RETURN_IF_ERROR(executor->Run());
    mine = SpanSeconds(executor->intervals());
  }
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(job_.control(), {mine}));
  return std::min_element(all.begin(), all.end())->front();
}

absl::StatusOr<double> CollectiveCalls::RunDrained(Executor* executor) {
  RETURN_IF_ERROR(DrainLink(job_.control()));
  return Run(executor);
}

}  // namespace stretto::bench
