// SPDX-License-Identifier: Apache-2.0
#pragma once
// A report may follow others that its log does not have any more: then it counts them
// (RankReport.dropped), and has the numbers first_number ... sequence.

#include <cstdint>

#include "absl/status/status.h"

namespace stretto {

namespace v1alpha1 {
class DroppedReports;
class RankReport;
}  // namespace v1alpha1

// The greatest number of a report, and of one that a trainer has written: its daemon adds others,
// whose numbers are valid too whatever the trainer wrote.
inline constexpr int64_t kMaxReportNumber = int64_t{1} << 53;
inline constexpr int64_t kMaxTrainerNumber = kMaxReportNumber / 2;

// Returns the number of the first report that was dropped before this one, or its own if none was.
int64_t FirstNumber(const v1alpha1::RankReport& report);

// Errors: InvalidArgument unless 1 <= FirstNumber <= sequence <= most; names them.
absl::Status CheckNumbers(const v1alpha1::RankReport& report, int64_t most = kMaxReportNumber);

// Counts the report, and what was dropped before it, as dropped.
void Drop(const v1alpha1::RankReport& report, v1alpha1::DroppedReports* dropped);

// Notes that `dropped`, which is then empty, comes right before what the report already follows.
void Precede(v1alpha1::DroppedReports* dropped, v1alpha1::RankReport* report);

// Everything up to number `known` has been counted elsewhere: what was dropped before the report
// begins behind it. If some of it is known, the sum of its ledgers is not any more.
void DropOnlyAfter(int64_t known, v1alpha1::RankReport* report);

}  // namespace stretto
