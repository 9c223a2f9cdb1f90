// SPDX-License-Identifier: Apache-2.0

// Turns the step of a stage into a pipeline. Schedules have ordered the unit of a micro-batch,
// forward and backward, or one for each chunk. It is cut between the two into the units "forward"
// and "backward", and the instances are those of the pipeline's order. Weight gradients that are
// delayed stand at the end of backward, behind its sends, or are a unit of their own, "weights".
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

// Cuts the unit of a chunk in place: its passes are that unit and new ones. Returns them.
absl::StatusOr<std::map<PassKind, UnitId>> Cut(const EngineSpec& spec, const PipelineOrder& order,
                                               int chunk, UnitId unit, StepProgram* step) {
  ASSIGN_OR_RETURN(const std::ptrdiff_t delayed, DelayWgrads(spec, chunk, unit, step));
  const OpList ops = std::move(step->units[unit].ops);
  const auto turn = std::find_if_not(ops.begin(), ops.end(), IsForward);
  const auto rest = ops.end() - (order.weights() ? delayed : 0);
  OpList forward(ops.begin(), turn), backward(turn, rest), weights(rest, ops.end());
  if (FindPipeline(spec.schedule.pipeline)->blocking) {
    SendLast(&forward);
    SendLast(&backward);
  }
  std::map<PassKind, UnitId> units = {{PassKind::kForward, unit}};
  step->units[unit].ops = std::move(forward);
  if (backward.empty()) return units;  // an evaluation
  const std::string number = spec.chunks_per_stage > 1 ? absl::StrCat(".", chunk) : "";
  step->units[unit].name = absl::StrCat("forward", number);
  units[PassKind::kBackward] =
      step->units.Add({absl::StrCat("backward", number), std::move(backward)});
  if (order.weights()) {
    units[PassKind::kWeights] =
        step->units.Add({absl::StrCat("weights", number), std::move(weights)});
  }
  return units;
}

}  // namespace

absl::Status ArrangePipeline(const EngineSpec& spec, StepProgram* step) {
  const std::vector<UnitId> chunks = MicroBatchUnits(*step);
  const OpList& ops = step->units[chunks.front()].ops;
  const bool evaluates = std::all_of(ops.begin(), ops.end(), IsForward);
  const StageOfPipeline at = StageOfRank(spec, step->rank, step->micro_batches);
  const PipelineOrder order = evaluates ? ForwardAlone(at) : OrderFor(spec.schedule, at);
  std::vector<std::map<PassKind, UnitId>> units;
  for (UnitId unit : chunks) {
    ASSIGN_OR_RETURN(units.emplace_back(),
                     Cut(spec, order, static_cast<int>(units.size()), unit, step));
  }
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
    for (const Turn& of : order.turns) {
      instances.push_back({.unit = units[static_cast<size_t>(of.chunk)].at(of.pass),
                           .micro_batches = {of.micro_batch},
                           .waits = {}});
    }
  }
  step->instances = std::move(instances);
  KeepCopies(step);
  return absl::OkStatus();
}

}  // namespace stretto
