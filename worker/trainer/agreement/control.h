// SPDX-License-Identifier: Apache-2.0
#pragma once
// Agreement between the ranks of a job outside the step program: small messages over the group's
// own communicator, so that training needs nobody else. Call between steps, on every rank in the
// same order.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// What each rank wants next; the strongest wish of any rank holds for all.
struct ControlWord {
  bool stop = false;
  bool checkpoint = false;
};
absl::StatusOr<ControlWord> Agree(Communicator& group, ControlWord mine);

// Every rank's text, by rank.
absl::StatusOr<std::vector<std::string>> ExchangeText(Communicator& group, const std::string& mine);

// "+TEXT" for what worked, "-MESSAGE" for what did not: how ranks tell each other.
std::string PackText(const absl::StatusOr<std::string>& result);

}  // namespace stretto::trainer
