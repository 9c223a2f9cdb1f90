// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/paced.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/comm/sleep.h"

namespace stretto {

PacedCommunicator::PacedCommunicator(std::unique_ptr<Communicator> inner, const Link& link)
    : inner_(std::move(inner)), link_(link) {
  STRETTO_CHECK(inner_ != nullptr);
  STRETTO_CHECK(link_.bytes_per_second > 0);
  STRETTO_CHECK(link_.latency >= absl::ZeroDuration());
}

absl::Duration PacedCommunicator::WireTime(const Collective& collective, int ranks,
                                           const Link& link) {
  const LinkSteps cost = LinkStepsOf(collective.kind, ranks, collective.bytes());
  return cost.steps * link.latency +
         absl::Seconds(cost.steps * cost.step_bytes / link.bytes_per_second);
}

absl::Status PacedCommunicator::Run(const Collective& collective) {
  if (size() == 1) return inner_->Run(collective);
  // Before the barrier, which peers with better arguments would wait in.
  RETURN_IF_ERROR(CheckCollective(collective, size()));
  RETURN_IF_ERROR(inner_->Run(Collective::Barrier()));
  const absl::Duration start = Clock::Real().Monotonic();
  RETURN_IF_ERROR(inner_->Run(collective));
  SleepUntil(start + WireTime(collective, size(), link_));
  return absl::OkStatus();
}

}  // namespace stretto
