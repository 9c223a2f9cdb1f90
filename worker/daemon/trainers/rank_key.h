// SPDX-License-Identifier: Apache-2.0
#pragma once
// Identifies one rank of one attempt of one job, the key of the daemon's tables.

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace stretto::daemon {

struct RankKey {
  std::string job_uid;
  int64_t epoch = 0;
  int32_t rank = 0;

  bool operator==(const RankKey& other) const = default;
  bool operator<(const RankKey& other) const {
    return std::tie(job_uid, epoch, rank) < std::tie(other.job_uid, other.epoch, other.rank);
  }
  // "rank 1 of job uid 0123abcd epoch 7", for messages.
  std::string ToString() const {
    return absl::StrCat("rank ", rank, " of job uid ", job_uid, " epoch ", epoch);
  }
};

// Returns the key of any message with the fields job_uid, epoch and rank.
template <class Message>
RankKey KeyOf(const Message& message) {
  return RankKey{message.job_uid(), message.epoch(), message.rank()};
}

}  // namespace stretto::daemon
