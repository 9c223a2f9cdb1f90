// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/delayed.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/random.h"
#include "worker/comm/sleep.h"

namespace stretto {

DelayedCommunicator::DelayedCommunicator(std::unique_ptr<Communicator> inner, uint64_t seed,
                                         absl::Duration max_delay)
    : inner_(std::move(inner)), seed_(seed), max_delay_(max_delay) {
  STRETTO_CHECK(inner_ != nullptr);
}

absl::Duration DelayedCommunicator::Delay(uint64_t seed, int rank, uint64_t call, int side,
                                          absl::Duration max_delay) {
  const auto draws = Philox(seed, call, static_cast<uint64_t>(rank));
  return max_delay * ToUniform(draws[side]);
}

absl::Status DelayedCommunicator::Run(const Collective& collective) {
  const uint64_t number = calls_++;
  SleepUntil(Clock::Real().Monotonic() + Delay(seed_, rank(), number, 0, max_delay_));
  absl::Status status = inner_->Run(collective);
  SleepUntil(Clock::Real().Monotonic() + Delay(seed_, rank(), number, 1, max_delay_));
  return status;
}

}  // namespace stretto
