// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of a job as rows of a table. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// "-" is a figure that no step has given yet.
struct RankRow {
  int rank;
  std::string worker, slot;
  std::string stage;                 // empty if the model is in one stage
  std::string step, exposed, waits;  // shares of the rank's time; `waits` for other stages
  int64_t behind;                    // steps behind the first rank
  double share;                      // as `exposed`
};

// Returns a row for each placed rank. Needs a normalized spec.
std::vector<RankRow> RankRows(const v1alpha1::Job& job);

}  // namespace stretto::cli
