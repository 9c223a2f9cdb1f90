// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of a step's communication has settled times.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/comm/communicator.h"

namespace stretto::bench {

// Adds up the times of a step's collectives. Some never settle: those that are mostly latency. They
// may take a small part of a step, which bounds what they add to the error of a prediction.
class SettledPart {
 public:
  // `seconds`: those that the operation takes in a step.
  void Add(const std::string& operation, const Repeats& found, double seconds);

  // Every rank calls it. Errors: UnsettledError on all ranks, if more than 3 % have not settled on
  // one; it names the operations there. Those of `control`.
  absl::Status ExpectMost(Communicator& control) const;

 private:
  bool too_small() const;

  double seconds_ = 0, unsettled_seconds_ = 0;
  std::vector<std::string> unsettled_;
};

}  // namespace stretto::bench
