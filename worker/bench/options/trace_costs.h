// SPDX-License-Identifier: Apache-2.0
#pragma once
// The costs of operations from the recorded steps of a job, as `stretto job trace` writes them.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/cost/table.h"

namespace stretto::bench {

// How such a file begins.
inline constexpr absl::string_view kTraceTitle = "{\"traceEvents\":";

// Returns the median time of the operations of each shape (OperationKey) over all layers,
// micro-batches, steps and ranks; in a trace of an older version, which has no shapes, of each
// phase, tag and kind (TagKey). Where some of them ran alone, with communication, or computation,
// in less than a tenth of their time, only these count: contention is then not in the costs. Of a
// collective, the rank with the least time counts, because the others waited for it. Sends and
// receives are left out: their times contain waits for other stages. Errors: InvalidArgument, for
// what is no trace, and for one without operations.
absl::StatusOr<CostTable> CostsOfTrace(absl::string_view json);

}  // namespace stretto::bench
