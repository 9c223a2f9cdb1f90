// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger (DESIGN section 6): every instant of a step belongs to exactly one part.
//
// C = union of compute intervals, M = union of communication intervals, R = union of receives from
// other stages. First match:
//   compute_hiding (C and M), compute_alone (C), exposed (M), pipeline_wait (R), data_wait,
//   checkpoint_wait, evaluation, idle.
// A receive is not in M. It starts as soon as there is room for what it gets, long before the
// sender has it, so its interval says nothing about the transfer; the transfer is in the sender's
// M. compute_* carry the phase of the computing operation; exposed and compute_hiding the group
// and, for exposed, the phase of the collective. Pure functions of numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

enum class LedgerPart : uint8_t {
  kComputeHiding,
  kComputeAlone,
  kExposed,
  kDataWait,
  kCheckpointWait,
  kIdle,
  kEvaluation,
  kPipelineWait
};
const char* NameOf(LedgerPart part);  // "compute_hiding", ...

// The names of phases in LedgerEntry: "forward", "recompute", "backward", "optimizer".
const char* LongNameOf(Phase phase);

struct LedgerEntry {
  LedgerPart part = LedgerPart::kIdle;
  std::string group;  // an axis of the layout, "tp", "dp" or "pp", or empty
  std::string phase;  // "forward", "backward", "optimizer" or empty
  double seconds = 0;
};

struct StepLedger {
  std::vector<LedgerEntry> entries;  // in a fixed order, zero entries left out
  double seconds = 0;                // sum of entries: the span [begin, end)
  double communication_seconds = 0;  // |M|
  double hidden_seconds = 0;         // |C and M|

  double overlap_ratio() const {
    return communication_seconds > 0 ? hidden_seconds / communication_seconds : 0;
  }
};

// Intervals of the host within the step.
struct HostWaits {
  std::vector<Interval> data, checkpoint;
  std::vector<Interval> evaluation = {};
};

// Computes the ledger of a step. `intervals` are those of `program`'s operations; everything is
// clipped to `step`.
StepLedger ComputeLedger(const Program& program, absl::Span<const Interval> intervals,
                         const HostWaits& waits, Interval step);

}  // namespace stretto
