// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>
#include <vector>

#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// Deals the operations of a unit to the chunks. Transfers have the number of the layer behind the
// boundary, which is the first of a chunk or, if no chunk of the stage has it, the one behind the
// last of one. What is outside the layers is next to them.
std::vector<IdVector<OpId, Op>> Deal(const IdVector<OpId, Op>& ops,
                                     const std::vector<Chunk>& chunks) {
  std::vector<IdVector<OpId, Op>> dealt(chunks.size());
  std::map<int, size_t> chunk_of;  // by layer
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (int layer = chunks[chunk].first_layer; layer < chunks[chunk].end_layer; ++layer)
      chunk_of[layer] = chunk;
  }
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    chunk_of.try_emplace(chunks[chunk].end_layer, chunk);
  size_t now = 0;
  for (const Op& op : ops) {
    const auto of_layer = chunk_of.find(op.tag.layer);
    if (of_layer != chunk_of.end()) now = of_layer->second;
    dealt[now].push_back(op);
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
