// SPDX-License-Identifier: Apache-2.0

// Keeps all repeats sorted and judges them anew after each: which agree, and whether they are
// enough.

#include "worker/bench/calibrate/settle.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/disturbance.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {
namespace {

// Returns the quiet times, or as many of the shortest as must be quiet.
absl::Span<const double> ShortestOf(absl::Span<const double> sorted) {
  const size_t count = std::max<size_t>(kSettledRounds, (sorted.size() + 2) / 3);
  return sorted.first(std::min(sorted.size(), std::max(count, QuietOf(sorted).size())));
}

// Judges the repeats so far.
Repeats Judge(Values kind, absl::Span<const double> sorted) {
  const absl::Span<const double> agreed = kind == Values::kAny ? sorted : ShortestOf(sorted);
  const double spread = SpreadOf(agreed);
  return {.median = MedianOf({agreed.begin(), agreed.end()}),
          .spread = spread,
          .settled =
              sorted.size() >= kSettledRounds && (kind == Values::kAny || spread <= kMostSpread)};
}

}  // namespace

absl::StatusOr<Repeats> Repeat(Values kind, absl::FunctionRef<absl::StatusOr<double>()> measure) {
  std::vector<double> sorted;
  Repeats found;
  while (!found.settled && sorted.size() < kMostRounds) {
    ASSIGN_OR_RETURN(const double value, measure());
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), value), value);
    found = Judge(kind, sorted);
  }
  return found;
}

absl::Status UnsettledError(const std::string& message) {
  return absl::FailedPreconditionError(absl::StrCat(message, "; calibrate on an idle machine"));
}

// No communicator and no executor has errors of this code.
bool IsUnsettled(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace stretto::bench
