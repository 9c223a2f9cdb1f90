// SPDX-License-Identifier: Apache-2.0

// Turns the step of a stage into a pipeline. Schedules have ordered the unit of a micro-batch,
// forward and backward. It is cut between the two into the units "forward" and "backward", and the
// instances are those of the pipeline's order.
//
// Several micro-batches are then in flight, so a buffer may need copies (slots). A copy is free
// again when the last operation that touches it is done:
//
//   written by                      read by             copies
//   forward                         backward            one for each micro-batch in flight
//   a receive, forward              backward            one more, so that the next may arrive early
//   a receive                       its own pass only   two: one arrives while the other is used
//   either pass                     a send              two: one leaves while the other is written
//   either pass                     its own pass only   one
//
// The waits that keep a copy from being overwritten too early follow from the accesses
// (lanes_and_waits.cc), and the verifier proves that no pass reads values of another micro-batch.

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "proto/base/check.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using OpList = IdVector<OpId, Op>;

// How the operations of the two passes use a buffer's memory.
struct Use {
  bool forward = false, backward = false;
  bool received_forward = false, received_backward = false;
  bool sent = false;
};

int CopiesFor(const Use& use, int in_flight) {
  // What one pass sends, or receives in backward, the other does not touch.
  const bool both = use.forward && use.backward;
  STRETTO_CHECK(!both || (!use.sent && !use.received_backward));
  if (both) return in_flight + (use.received_forward ? 1 : 0);
  return use.received_forward || use.received_backward || use.sent ? 2 : 1;
}

// By root buffer.
std::map<BufferId, Use> UsesOf(const StepProgram& step, const OpList& forward,
                               const OpList& backward) {
  std::map<BufferId, Use> uses;
  for (const OpList* pass : {&forward, &backward}) {
    for (const Op& op : *pass) {
      for (const std::vector<BufferId>* ids : {&op.in, &op.out}) {
        for (BufferId id : *ids) {
          Use& use = uses[RootOf(step.buffers, id).buffer];
          (pass == &forward ? use.forward : use.backward) = true;
          if (op.kind == OpKind::kSend) use.sent = true;
          if (op.kind != OpKind::kRecv) continue;
          (pass == &forward ? use.received_forward : use.received_backward) = true;
        }
      }
    }
  }
  return uses;
}

void KeepCopies(const std::map<BufferId, Use>& uses, int in_flight, StepProgram* step) {
  for (BufferId id : step->buffers.ids()) {
    Buffer& buffer = step->buffers[id];
    if (buffer.arena != ArenaClass::kActivation) continue;
    const auto use = uses.find(RootOf(step->buffers, id).buffer);
    if (use == uses.end()) continue;
    buffer.slots = std::min(CopiesFor(use->second, in_flight), step->micro_batches);
  }
}

// Moves the sends of a pass behind its computation.
void SendLast(OpList* pass) {
  std::stable_partition(pass->begin(), pass->end(),
                        [](const Op& op) { return op.kind != OpKind::kSend; });
}

}  // namespace

absl::Status ArrangePipeline(const EngineSpec& spec, StepProgram* step) {
  const UnitId unit = FindUnit(*step, kMicroBatchUnit);
  const OpList ops = std::move(step->units[unit].ops);
  const auto turn = std::find_if(ops.begin(), ops.end(),
                                 [](const Op& op) { return op.tag.phase != Phase::kForward; });
  OpList forward(ops.begin(), turn), backward(turn, ops.end());
  if (FindPipeline(spec.schedule.pipeline)->blocking) {
    SendLast(&forward);
    SendLast(&backward);
  }
  if (backward.empty()) {  // an evaluation: nothing of a micro-batch outlives its pass
    KeepCopies(UsesOf(*step, forward, backward), 1, step);
    step->units[unit].ops = std::move(forward);
    return absl::OkStatus();
  }
  const PipelineOrder order = OrderFor(spec, step->rank, step->micro_batches);
  KeepCopies(UsesOf(*step, forward, backward), order.InFlight(), step);

  step->units[unit] = {"forward", std::move(forward)};
  const UnitId second = step->units.Add({"backward", std::move(backward)});
  IdVector<InstanceId, Instance> instances;
  for (const Instance& instance : step->instances) {
    if (instance.unit != unit) {
      instances.push_back(instance);
      continue;
    }
    // The first of the micro-batches stands for all of them.
    if (instance.micro_batches.at(0) != 0) continue;
    const InstanceId first = instances.next();
    step->repeat = {.begin = first + order.begin, .end = first + order.end, .period = order.period};
    for (const Turn& of : order.turns) {
      instances.push_back(
          {.unit = of.backward ? second : unit, .micro_batches = {of.micro_batch}, .waits = {}});
    }
  }
  step->instances = std::move(instances);
  return absl::OkStatus();
}

}  // namespace stretto
