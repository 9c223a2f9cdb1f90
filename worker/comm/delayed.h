// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decorator for tests: sleeps a pseudo-random time before and after each call, so that ranks and
// lanes meet in many orders. The delays are a pure function of (seed, rank, call number).

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "worker/comm/communicator.h"

namespace stretto {

class DelayedCommunicator final : public Communicator {
 public:
  // Each delay is uniform in [0, max_delay).
  DelayedCommunicator(std::unique_ptr<Communicator> inner, uint64_t seed, absl::Duration max_delay);

  // The delay before (side 0) or after (side 1) call number `call`.
  static absl::Duration Delay(uint64_t seed, int rank, uint64_t call, int side,
                              absl::Duration max_delay);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const Collective& collective) override;
  void Abort() override { inner_->Abort(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const uint64_t seed_;
  const absl::Duration max_delay_;
  uint64_t calls_ = 0;
};

}  // namespace stretto
