// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decorator that makes any Communicator behave like a link of given bandwidth and latency, by
// sleeping: waiting costs no CPU, as on a network card. Figures taken through it are labelled
// "emulated link".
//
// The wire is busy from the moment the last rank is ready (an inner barrier) for WireTime; the
// inner call runs meanwhile. A call slower than the link is not slowed further. Each
// PacedCommunicator has a link of its own. Abort wakes the inner call; a rank that already sleeps
// finishes its wire time.

#include <memory>

#include "absl/time/time.h"
#include "worker/comm/communicator.h"

namespace stretto {

struct Link {
  double bytes_per_second = 0;  // each rank's, in each direction; must be > 0
  absl::Duration latency;       // per step of the ring
};

class PacedCommunicator final : public Communicator {
 public:
  PacedCommunicator(std::unique_ptr<Communicator> inner, const Link& link);

  // How long the link takes for a collective of that many ranks (LinkStepsOf).
  static absl::Duration WireTime(const Collective& collective, int ranks, const Link& link);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const Collective& collective) override;
  void Abort() override { inner_->Abort(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const Link link_;
};

}  // namespace stretto
