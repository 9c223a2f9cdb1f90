// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// Deals the operations of a unit to the chunks. Transfers have the number of the layer behind the
// boundary. No chunk of the stage follows another directly, so that layer is either the first of a
// chunk or the one behind its last. What is outside the layers stands next to them.
std::vector<IdVector<OpId, Op>> Deal(const IdVector<OpId, Op>& ops,
                                     const std::vector<Chunk>& chunks) {
  std::vector<IdVector<OpId, Op>> dealt(chunks.size());
  size_t chunk = 0;
  for (const Op& op : ops) {
    const int layer = op.tag.layer;
    const auto of_layer = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& has) {
      return has.first_layer <= layer && layer <= has.end_layer;
    });
    if (of_layer != chunks.end()) chunk = static_cast<size_t>(of_layer - chunks.begin());
    dealt[chunk].push_back(op);
  }
  return dealt;
}

}  // namespace

absl::Status SplitChunks(const EngineSpec& spec, StepProgram* step) {
  if (spec.chunks_per_stage == 1) return absl::OkStatus();
  const UnitId whole = FindUnit(*step, kMicroBatchUnit);
  const std::vector<Chunk> chunks = ChunksOf(spec, PlaceOf(spec, step->rank).stage);
  std::vector<UnitId> units;
  for (IdVector<OpId, Op>& ops : Deal(step->units[whole].ops, chunks)) {
    const Unit unit = {ChunkUnitName(static_cast<int>(units.size())), std::move(ops)};
    if (units.empty()) {
      step->units[whole] = unit;
      units.push_back(whole);
    } else {
      units.push_back(step->units.Add(unit));
    }
  }
  IdVector<InstanceId, Instance> instances;
  for (const Instance& instance : step->instances) {
    if (instance.unit != whole) {
      instances.push_back(instance);
      continue;
    }
    for (UnitId unit : units) {
      instances.push_back({.unit = unit, .micro_batches = instance.micro_batches, .waits = {}});
    }
  }
  step->instances = std::move(instances);
  const Repeat& run = step->repeat;
  step->repeat = {.begin = run.begin,
                  .end = run.begin + run.count() * spec.chunks_per_stage,
                  .period = spec.chunks_per_stage,
                  .stride = run.stride};
  return absl::OkStatus();
}

}  // namespace stretto
