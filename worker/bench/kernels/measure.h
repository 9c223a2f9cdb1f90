// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the time of a call of a backend with a step program that repeats it on distinct buffers.

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/options/kernels_options.h"
#include "worker/engine/exec/backend.h"

namespace stretto::bench {

// Calls of a case as a step of one unit, on `sets` sets of buffers in turn, so that operands come
// from memory and not from a cache. `uses` sets in a row share the weights.
struct CaseCopies {
  StepProgram step;
  IdVector<BufferId, BufferId> of;  // the buffer of the case, by buffer of the step
};
CaseCopies CopiesOf(const KernelCase& timed, int calls, int sets);

// Returns how many sets of buffers take `working_set` bytes together: 2 to 64, or `uses` if that is
// more.
int CountFor(const KernelCase& timed, int64_t working_set);

// Makes an executor of copies of a case, and of what was added to their step since, with random and
// finite operands. Other buffers are zero. Errors: the backend's.
absl::StatusOr<std::unique_ptr<Executor>> MakeFilled(const KernelCase& timed, CaseCopies copies,
                                                     GroupLinks links, Backend& backend);

// Returns the seconds of one call: the time from the begin of the first copy to the end of the
// last, divided by the number of copies, as the median over runs. Each run uses all copies. Errors:
// the backend's; Internal if a result is not finite.
absl::StatusOr<double> TimeOf(const KernelCase& timed, const KernelTiming& timing,
                              Backend& backend);

// Returns the seconds from the first begin to the last end.
double SpanSeconds(absl::Span<const Interval> intervals);

}  // namespace stretto::bench
