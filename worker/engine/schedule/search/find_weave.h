// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave plans of cells that are the shortest at given costs. Pure and deterministic: all ranks
// that search with the same costs find the same plans, but a job should search once and send them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Which orders a search considers, of those in which dgrads, weight gradients, forward and the next
// embedding each keep the order of the default plan. Events: every one, run as helix runs it.
// Blocks: the published form, in which both strands wait for each other behind each block (Wang et
// al. 2024), with barriers in its plan.
enum class WeaveForm : uint8_t { kEvents, kBlocks };

// The most layers times slices for which the search of blocks takes about a second.
inline constexpr int kMostBlockLayers = 4;

// The largest pace of a plan that is found. A larger one takes activations beyond 1 + 2 / layers of
// those of megatron_sync, and makes cells 0.1 % shorter (docs/design/0037-weave-search.md).
inline constexpr int kMostFoundPace = 1;

// Times are of the cell alone, from the first operation to the end of the last, with contention, on
// a link that saves up no burst. Of several stages, they are those of the slowest one; of blocks,
// those of the first.
struct FoundWeave {
  WeavePlan plan;
  double seconds = 0;        // of blocks: with barriers
  bool exact = false;        // no plan of this form is shorter
  double lower_bound = 0;    // that no plan can beat, with contention or without
  WeavePlan given_plan;      // all words in the order of the step; `given` if it has barriers
  double given_seconds = 0;  // of that plan
  bool given_fits = false;   // that order is one that is searched, and keeps pace and backlog
};

// Searches the order of each cell of a woven step: of the only one, or of the two of folded stages.
// `stages` has the step of a rank of each stage, the first one first, with its lanes, for example
// that of DraftPlan. All ranks weave by one plan, and the first stage has all words of the others
// but transfers, which take no time in a cell. So no cell is longer than that of the first stage,
// which is the one that is searched. The times of its plan are those of the slowest stage.
//
// The plans have the paces of those in `given`, a text as of schedule.weave, up to kMostFoundPace,
// and else the default one. If it has barriers, the steps must be woven by it. With L layers,
// activations are at most 1 + 2 / L of those of megatron_sync; with full recomputation, what
// forward of a layer keeps comes on top (FoundMemoryTest). The plans are not slower than the order
// that the steps have if that fits and has no barriers, which may make a cell shorter where sides
// contend.
//
// With contention, the search of events finds one order at the times of operations alone and one at
// times that are longer by what operations lose at most. Of these and the given one, it returns the
// one whose time is the least above the shortest of them, also where costs are off by kDoubt
// (judge.h). The search of blocks is exact with contention, and ignores doubt. Errors:
// InvalidArgument, if a step has no cell of two passes, or the text is no weave plan.
absl::StatusOr<std::vector<FoundWeave>> FindWeaves(absl::Span<const StepProgram* const> stages,
                                                   const CostModel& cost,
                                                   absl::string_view given = "",
                                                   WeaveForm form = WeaveForm::kEvents);

// Returns the text of a plan of each cell, as of schedule.weave.
std::string PrintWeaves(const std::vector<FoundWeave>& cells,
                        WeavePlan FoundWeave::*plan = &FoundWeave::plan);

}  // namespace stretto
