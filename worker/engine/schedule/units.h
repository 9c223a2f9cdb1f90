// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of the units that passes search for.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/check.h"
#include "worker/engine/program/program.h"
#include "worker/engine/reshard/operations.h"

namespace stretto {

inline constexpr absl::string_view kMicroBatchUnit = "micro_batch";
inline constexpr absl::string_view kOptimizerUnit = "optimizer";

// With several chunks in a stage, each has a unit (split_chunks.cc): "micro_batch.0", ...
inline std::string ChunkUnitName(int chunk) { return absl::StrCat(kMicroBatchUnit, ".", chunk); }

// The units of the passes of a chunk (arrange_pipeline.cc): "forward", or "forward.1" where a stage
// has several.
inline std::string PassUnitName(absl::string_view pass, int chunk, int chunks) {
  return chunks > 1 ? absl::StrCat(pass, ".", chunk) : std::string(pass);
}

// Between the names of two passes whose cell is a unit: "forward|backward".
inline constexpr absl::string_view kWovenWith = "|";

// The embedding of a micro-batch, if it is a pass of its own.
inline constexpr absl::string_view kEmbeddingUnit = "embedding";

// The unit of a cell: a forward pass woven with a backward pass, each of a chunk of its stage.
struct WovenUnit {
  UnitId unit = -1;
  int forward_chunk = 0, backward_chunk = 0;
};

// Returns the units of cells, by the chunk of forward: none, those of one stage, with and without
// the embedding of the next micro-batch, or the two of folded stages.
inline std::vector<WovenUnit> WovenUnits(const StepProgram& step) {
  std::vector<WovenUnit> cells;
  for (int chunks : {1, 2}) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int other = chunks - 1 - chunk;
      const std::string name = absl::StrCat(PassUnitName("forward", chunk, chunks), kWovenWith,
                                            PassUnitName("backward", other, chunks));
      for (UnitId unit : step.units.ids()) {
        const std::string& of = step.units[unit].name;
        if (of == name || of == absl::StrCat(name, kWovenWith, kEmbeddingUnit))
          cells.push_back({unit, chunk, other});
      }
    }
  }
  return cells;
}

// Returns the units of a micro-batch, in the order of chunks: one, or those of SplitChunks.
inline std::vector<UnitId> MicroBatchUnits(const StepProgram& step) {
  std::vector<UnitId> units;
  for (UnitId unit : step.units.ids()) {
    const std::string& name = step.units[unit].name;
    if (name == kMicroBatchUnit || name == ChunkUnitName(static_cast<int>(units.size())))
      units.push_back(unit);
  }
  return units;
}

// Returns the index of the unit `name`. CHECKs that it exists.
inline UnitId FindUnit(const StepProgram& step, absl::string_view name) {
  for (UnitId unit : step.units.ids()) {
    if (step.units[unit].name == name) return unit;
  }
  STRETTO_CHECK(false && "no such unit");
  return -1;
}

// Whether an operation communicates with another stage, or completes what comes from it. Such
// operations wait for other stages, so nothing of their own stage may be made to wait for them. The
// name of a gather has its layer behind it.
inline bool MovesBetweenStages(const Op& op) {
  return IsTransfer(op.kind) || (op.kind == OpKind::kAllGather &&
                                 absl::StartsWith(op.tag.name, NameOf(ReshardRole::kGather)));
}

}  // namespace stretto
