// SPDX-License-Identifier: Apache-2.0
#include "proto/reporting/dropped_reports.h"

#include "absl/strings/str_cat.h"
#include "proto/reporting/ledger_sum.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto {

using v1alpha1::DroppedReports;
using v1alpha1::RankReport;

int64_t FirstNumber(const RankReport& report) {
  return report.sequence() - report.dropped().reports();
}

absl::Status CheckNumbers(const RankReport& report, int64_t most) {
  const int64_t sequence = report.sequence(), dropped = report.dropped().reports();
  if (1 <= sequence && sequence <= most && 0 <= dropped && dropped < sequence)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("found report ", sequence, " after ", dropped,
                                                 " dropped ones, expected a number from 1 to ",
                                                 most, " and fewer dropped ones"));
}

void Drop(const RankReport& report, DroppedReports* dropped) {
  dropped->set_reports(dropped->reports() + report.dropped().reports() + 1);
  if (report.dropped().has_ledger())
    AddLedger(report.dropped().ledger(), dropped->mutable_ledger());
  if (report.has_step()) AddLedger(report.step().ledger(), dropped->mutable_ledger());
}

void Precede(DroppedReports* dropped, RankReport* report) {
  if (dropped->reports() == 0) return;
  DroppedReports* after = report->mutable_dropped();
  after->set_reports(after->reports() + dropped->reports());
  if (dropped->has_ledger()) AddLedger(dropped->ledger(), after->mutable_ledger());
  dropped->Clear();
}

void DropOnlyAfter(int64_t known, RankReport* report) {
  if (!report->has_dropped() || FirstNumber(*report) > known) return;
  const int64_t unknown = report->sequence() - known - 1;
  report->clear_dropped();
  if (unknown > 0) report->mutable_dropped()->set_reports(unknown);
}

}  // namespace stretto
