// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how much blocks that are busy with a link slow down concurrent computation, independent
// of waits (t_occupy in docs/BENCHMARKS.md).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {

// All-reduces for which nothing waits; `calls` is 0 if there are none.
struct Occupation {
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements of each
  int calls = 0;
  bool operator==(const Occupation&) const = default;
};

// Returns the number of all-reduces that keep `link` busy for `seconds`, each as large as the
// largest one of forward and backward. The program must have one there.
Occupation OccupationOf(const Program& program, const EmulatedLinkOptions& link, double seconds);

// Adds them to a plan of Variant::kComputeOnly, in sequence on its communication lane from the
// begin of the unit with the most operations, on a separate buffer; where that unit runs several
// times, they are shared out evenly. They count as operations of the optimizer. Errors: Internal if
// the resulting plan does not verify.
absl::Status Occupy(const Occupation& occupation, RankPlan* plan);

// Returns the time of a collective on an otherwise idle link.
double SecondsOf(const EmulatedLinkOptions& link, const Program& program, const Op& op);

}  // namespace stretto::bench
