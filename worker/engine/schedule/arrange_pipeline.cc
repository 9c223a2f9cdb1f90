// SPDX-License-Identifier: Apache-2.0

// Turns the step of a stage into a pipeline. Schedules have ordered the unit of a micro-batch,
// forward and backward, or one for each chunk. It is cut between the two into the units "forward"
// and "backward", and the instances are those of the pipeline's order. Weight gradients that are
// delayed stand at the end of backward, behind its sends, or are a unit of their own, "weights".
//
// A schedule that weaves has cells of two passes, in one stage or in folded ones. The unit of such
// a cell has a role for each: forward first, then backward, in the order of the list, and last the
// embedding of the next micro-batch. Which operations take turns is decided later (helix.cc).
//
// Several micro-batches are then in flight, so a buffer may need copies (memory/copies.h). In 1f1b
// these are:
//
//   written by                      read by             copies
//   forward                         backward            one for each micro-batch in flight
//   a receive, forward              backward            one more
//   a receive                       its own pass only   two
//   either pass                     a send              two
//   either pass                     its own pass only   one
//
// The waits that keep a copy from being overwritten too early follow from the accesses
// (lanes_and_waits.cc), and the verifier proves that every pass reads its own values.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/memory/copies.h"
#include "worker/engine/schedule/delayed_wgrads.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/engine/schedule/reorder/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using OpList = IdVector<OpId, Op>;

// Moves the weight gradients that the spec delays to the end of the unit, and returns their number.
absl::StatusOr<std::ptrdiff_t> DelayWgrads(const EngineSpec& spec, int chunk, UnitId unit,
                                           StepProgram* step) {
  const WgradDelay delay = spec.schedule.wgrad_delay;
  const OpList& ops = step->units[unit].ops;
  // Only the first chunk of the first stage sends nothing back. In other stages a rank may send
  // nothing, but those that share the stage with it do, and all of them keep one order.
  const bool sends = chunk > 0 || PlaceOf(spec, step->rank).stage > 0;
  if (delay == WgradDelay::kNone || (delay == WgradDelay::kSend && !sends)) return 0;
  const IdVector<OpId, bool> goes = DelayableWgrads(*step, unit);
  std::vector<OpId> order;
  for (OpId op : ops.ids()) order.push_back(op);
  const auto delayed =
      std::stable_partition(order.begin(), order.end(), [&](OpId op) { return !goes[op]; });
  const std::ptrdiff_t count = order.end() - delayed;
  RETURN_IF_ERROR(Reorder(step, unit, order));
  return count;
}

// Moves the sends of a pass behind its computation.
void SendLast(OpList* pass) {
  std::stable_partition(pass->begin(), pass->end(),
                        [](const Op& op) { return op.kind != OpKind::kSend; });
}

bool IsForward(const Op& op) { return op.tag.phase == Phase::kForward; }
bool IsEmbedding(const Op& op) { return IsForward(op) && op.tag.name == "embed"; }

// Cuts the unit of a chunk in place: its passes are that unit and new ones. Returns them. Delayed
// weight gradients and the embedding are among them if the order has such passes.
absl::StatusOr<std::map<PassKind, UnitId>> Cut(const EngineSpec& spec, const PipelineOrder& order,
                                               int chunk, UnitId unit, StepProgram* step) {
  const bool with_weights = order.weights();
  ASSIGN_OR_RETURN(const std::ptrdiff_t delayed, DelayWgrads(spec, chunk, unit, step));
  const OpList ops = std::move(step->units[unit].ops);
  const auto turn = std::find_if_not(ops.begin(), ops.end(), IsForward);
  const auto rest = ops.end() - (with_weights ? delayed : 0);
  OpList forward(ops.begin(), turn), backward(turn, rest), weights(rest, ops.end());
  if (FindPipeline(spec.schedule.pipeline)->blocking) {
    SendLast(&forward);
    SendLast(&backward);
  }
  std::map<PassKind, UnitId> units = {{PassKind::kForward, unit}};
  if (order.embeddings()) {
    OpList embedding, rest_of_forward;
    for (const Op& op : forward) (IsEmbedding(op) ? embedding : rest_of_forward).push_back(op);
    forward = std::move(rest_of_forward);
    units[PassKind::kEmbedding] =
        step->units.Add({std::string(kEmbeddingUnit), std::move(embedding)});
  }
  step->units[unit].ops = std::move(forward);
  if (backward.empty()) return units;  // an evaluation
  const auto name = [&](const char* pass) {
    return PassUnitName(pass, chunk, spec.chunks_per_stage);
  };
  step->units[unit].name = name("forward");
  units[PassKind::kBackward] = step->units.Add({name("backward"), std::move(backward)});
  if (with_weights)
    units[PassKind::kWeights] = step->units.Add({name("weights"), std::move(weights)});
  return units;
}

// Makes the units of cells from those of passes.
class Cells {
 public:
  Cells(std::vector<std::map<PassKind, UnitId>> passes, StepProgram* step)
      : passes_(std::move(passes)), step_(step) {}

  Instance InstanceOf(const Cell& cell) {
    Instance instance = {.unit = -1, .micro_batches = {}, .waits = {}};
    std::vector<UnitId> units;
    for (const Turn& strand : cell) {
      units.push_back(passes_[static_cast<size_t>(strand.chunk)].at(strand.pass));
      instance.micro_batches.push_back(strand.micro_batch);
    }
    instance.unit = units.size() == 1 ? units[0] : Together(units);
    return instance;
  }

 private:
  // The unit of several strands, one behind the other.
  UnitId Together(const std::vector<UnitId>& strands) {
    const auto [made, fresh] = cells_.try_emplace(strands);
    if (!fresh) return made->second;
    Unit unit;
    for (size_t role = 0; role < strands.size(); ++role) {
      const Unit& strand = step_->units[strands[role]];
      absl::StrAppend(&unit.name, role == 0 ? "" : kWovenWith, strand.name);
      OpList ops;
      for (Op op : strand.ops) {
        op.tag.micro_batch = static_cast<int>(role);
        ops.push_back(std::move(op));
      }
      // An embedding may be played anywhere in the cell. It is counted as if it came first, so that
      // it has a copy of its own beside those of both passes.
      const bool first = strand.name == kEmbeddingUnit;
      unit.ops.insert(first ? unit.ops.begin() : unit.ops.end(), ops.begin(), ops.end());
    }
    return made->second = step_->units.Add(std::move(unit));
  }

  const std::vector<std::map<PassKind, UnitId>> passes_;  // by chunk
  StepProgram* const step_;
  std::map<std::vector<UnitId>, UnitId> cells_;
};

}  // namespace

absl::Status ArrangePipeline(const EngineSpec& spec, StepProgram* step) {
  const std::vector<UnitId> chunks = MicroBatchUnits(*step);
  const OpList& ops = step->units[chunks.front()].ops;
  const bool trains = !std::all_of(ops.begin(), ops.end(), IsForward);
  const StageOfPipeline at = StageOfRank(spec, step->rank, step->micro_batches);
  const PipelineOrder order =
      trains ? OrderFor(spec.schedule, at) : ForwardAlone(spec.schedule, at);
  std::vector<std::map<PassKind, UnitId>> passes;
  for (UnitId unit : chunks) {
    ASSIGN_OR_RETURN(passes.emplace_back(),
                     Cut(spec, order, static_cast<int>(passes.size()), unit, step));
  }
  Cells cells(std::move(passes), step);
  IdVector<InstanceId, Instance> instances;
  for (const Instance& instance : step->instances) {
    if (std::find(chunks.begin(), chunks.end(), instance.unit) == chunks.end()) {
      instances.push_back(instance);
      continue;
    }
    // The first chunk of the first micro-batch stands for all of them.
    if (instance.unit != chunks.front() || instance.micro_batches.at(0) != 0) continue;
    const InstanceId first = instances.next();
    step->repeat = {.begin = first + order.begin,
                    .end = first + order.end,
                    .period = order.period,
                    .stride = order.stride};
    for (const Cell& cell : order.cells) instances.push_back(cells.InstanceOf(cell));
  }
  step->instances = std::move(instances);
  KeepCopies(step);
  return absl::OkStatus();
}

}  // namespace stretto
