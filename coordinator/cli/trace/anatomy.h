// SPDX-License-Identifier: Apache-2.0
#pragma once
// The account of each instant of a recorded step. It applies the ledger's rule (Ledger in
// job.proto) to the recorded intervals, so that a picture shows what the ledger counts.

#include <string>
#include <vector>

#include "coordinator/cli/trace/records.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct LedgerSegment {
  Span span;  // relative to the begin of the step
  v1alpha1::Ledger::Part part = v1alpha1::Ledger::IDLE;
  std::string group;  // as in Ledger.Entry
  std::string phase;
};

// Whether the operation receives from another stage. It begins when there is room for what it gets,
// long before there is something to receive, so it is no communication in flight.
bool IsReceive(const v1alpha1::TraceOperation& op);

// Segments in order, without gaps, from 0 to the end of the step; adjacent segments differ.
std::vector<LedgerSegment> Anatomy(const v1alpha1::TraceProgram& program,
                                   const v1alpha1::TraceStep& step);

// Sums the segments into a ledger, as a step reports it.
v1alpha1::Ledger LedgerOf(const std::vector<LedgerSegment>& segments);

// "exposed tp backward"
std::string SegmentName(const LedgerSegment& segment);

}  // namespace stretto::cli
