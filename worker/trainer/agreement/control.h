// SPDX-License-Identifier: Apache-2.0
#pragma once
// Agreement between the ranks of a job outside the step program: small messages over the group's
// own communicator, so that training depends on no other process. Call these functions between
// steps, on every rank in the same order.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// A request of a rank. Agree returns to all ranks the requests that any rank has made.
struct ControlWord {
  bool stop = false;
  bool checkpoint = false;
  bool fenced = false;  // a newer attempt of the job has begun
  bool saving = false;  // it still works on the checkpoint under way
};
absl::StatusOr<ControlWord> Agree(Communicator& group, ControlWord mine);

// Returns whether any rank has passed true.
absl::StatusOr<bool> AnyRank(Communicator& group, bool mine);

// Returns the text of every rank, by rank.
absl::StatusOr<std::vector<std::string>> ExchangeText(Communicator& group, const std::string& mine);

// Returns the text of rank `root`; what the others bring is ignored.
absl::StatusOr<std::string> BroadcastText(Communicator& group, const std::string& mine, int root);

// Returns the numbers of every rank, by rank, bit by bit. All ranks pass equally many.
absl::StatusOr<std::vector<std::vector<double>>> ExchangeNumbers(Communicator& group,
                                                                 const std::vector<double>& mine);

// Packs a result for ExchangeText: "+TEXT" on success, "-MESSAGE" on failure.
std::string PackText(const absl::StatusOr<std::string>& result);

}  // namespace stretto::trainer
