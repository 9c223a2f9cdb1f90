// SPDX-License-Identifier: Apache-2.0
#pragma once
// What blocks that are busy with a link cost the computation beside them, whatever it waits for
// (t_occupy in docs/BENCHMARKS.md).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {

// All-reduces that nobody waits for. None: `calls` is 0.
struct Occupation {
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements of each
  int calls = 0;
  bool operator==(const Occupation&) const = default;
};

// As many as keep `link` busy for `seconds`, each as large as the largest of forward and backward,
// which has one.
Occupation OccupationOf(const Program& program, const EmulatedLinkOptions& link, double seconds);

// Adds them to a plan of Variant::kComputeOnly, one behind the other on its communication lane from
// the begin of the unit with the most operations, on a buffer of their own. They count as the
// optimizer's. Errors: Internal when the plan does not verify then.
absl::Status Occupy(const Occupation& occupation, RankPlan* plan);

// What the link takes for a collective of a program, without anything in its way.
double SecondsOf(const EmulatedLinkOptions& link, const Program& program, const Op& op);

}  // namespace stretto::bench
