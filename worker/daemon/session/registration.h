// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a daemon learns from the answer to its registration: which of the ranks that it has offered
// it keeps, and which cluster it belongs to. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// What becomes of a rank that was offered.
struct HeldAnswer {
  RankKey key;
  bool keep = true;   // false: end it, and send no more reports of it
  int64_t acked = 0;  // of a rank that is kept: the coordinator has its reports up to this one
};
// Returns one per offered rank, in their order. Ranks that the answer does not mention are kept,
// with every report.
std::vector<HeldAnswer> AnswersTo(const std::vector<stretto::v1alpha1::HeldRank>& offered,
                                  const stretto::v1alpha1::Registered& registered);

// The cluster that a worker belongs to. A coordinator of another one, or one whose state is older
// than what this worker has done for it, refuses the worker, so that a mistake ends no run.
struct Membership {
  std::string cluster_id;    // empty: none yet
  int64_t newest_epoch = 0;  // of the assignments that it has had there

  bool operator==(const Membership&) const = default;
};
// Returns the membership of a worker that `cluster_id` has accepted, and given an assignment of
// `epoch` (0: none). A coordinator without an id, which is an older one, changes nothing.
Membership Noted(const Membership& before, const std::string& cluster_id, int64_t epoch);

}  // namespace stretto::daemon
