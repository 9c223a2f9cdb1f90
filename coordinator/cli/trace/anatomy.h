// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each instant of a recorded step was spent on: the ledger's rule (Ledger in job.proto)
// applied to the recorded intervals, so that a picture shows what the ledger counts.

#include <string>
#include <vector>

#include "coordinator/cli/trace/records.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct LedgerSegment {
  Span span;  // from the begin of the step
  v1alpha1::Ledger::Part part = v1alpha1::Ledger::IDLE;
  std::string group;  // as in Ledger.Entry
  std::string phase;
};

// In order, without gaps, from 0 to the end of the step; neighbours differ.
std::vector<LedgerSegment> Anatomy(const v1alpha1::TraceProgram& program,
                                   const v1alpha1::TraceStep& step);

// Their sums, as a step reports them.
v1alpha1::Ledger LedgerOf(const std::vector<LedgerSegment>& segments);

// "exposed tp backward"
std::string SegmentName(const LedgerSegment& segment);

}  // namespace stretto::cli
