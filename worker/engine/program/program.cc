// SPDX-License-Identifier: Apache-2.0

// Expansion: every instance of a unit becomes a list of operations with absolute indices. Their
// buffers are resolved to the copies of the instance's micro-batches (BufferMap), and the waits of
// the unit and of the instance become waits of the flat list.

#include "worker/engine/program/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace stretto {

std::string LaneNameOf(const Group& group) { return absl::StrCat("comm.", group.name); }

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "fwd";
    case Phase::kRecompute:
      return "rec";
    case Phase::kBackward:
      return "bwd";
    case Phase::kOptimizer:
      return "opt";
  }
  return "?";
}

const char* NameOf(ArenaClass arena) {
  switch (arena) {
    case ArenaClass::kParameter:
      return "parameter";
    case ArenaClass::kGradient:
      return "gradient";
    case ArenaClass::kOptimizer:
      return "optimizer";
    case ArenaClass::kInput:
      return "input";
    case ArenaClass::kOutput:
      return "output";
    case ArenaClass::kActivation:
      return "activation";
  }
  return "?";
}

int64_t Buffer::count() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

namespace {

int CopiesOf(const Buffer& buffer, const StepProgram& step) {
  return buffer.slots == kPerMicroBatch ? step.micro_batches : buffer.slots;
}

}  // namespace

BufferMap::BufferMap(const StepProgram& step) : step_(step) {
  first_.reserve(step.buffers.size());
  for (const Buffer& buffer : step.buffers) {
    first_.push_back(BufferId::Of(size_));
    size_ += CopiesOf(buffer, step);
  }
}

BufferId BufferMap::Find(BufferId id, int micro_batch) const {
  return first_[id] + std::max(micro_batch, 0) % CopiesOf(step_.buffers[id], step_);
}

namespace {

void ExpandBuffers(const StepProgram& step, const BufferMap& map, Program* program) {
  program->buffers.reserve(map.size());
  for (const Buffer& buffer : step.buffers) {
    const int copies = CopiesOf(buffer, step);
    for (int copy = 0; copy < copies; ++copy) {
      Buffer concrete = buffer;
      concrete.slots = 1;
      if (copies > 1) absl::StrAppend(&concrete.name, "#", copy);
      if (buffer.alias >= 0) {
        // A view and its root have equally many copies, so copy i views copy i.
        STRETTO_CHECK(step.buffers[buffer.alias].slots == buffer.slots);
        concrete.alias = map.Find(buffer.alias, copy);
      }
      program->buffers.push_back(std::move(concrete));
    }
  }
}

}  // namespace

Program Expand(const StepProgram& step) {
  Program program{.rank = step.rank,
                  .world_size = step.world_size,
                  .groups = step.groups,
                  .lanes = step.lanes,
                  .buffers = {},
                  .ops = {}};
  const BufferMap map(step);
  ExpandBuffers(step, map, &program);

  size_t ops = 0;
  for (const Instance& instance : step.instances) ops += step.units.at(instance.unit).ops.size();
  program.ops.reserve(ops);
  IdVector<InstanceId, OpId> base;  // first operation of each instance
  for (const Instance& instance : step.instances) {
    base.push_back(program.ops.next());
    const Unit& unit = step.units.at(instance.unit);
    for (const Op& source : unit.ops) {
      Op op = source;
      int& micro_batch = op.tag.micro_batch;
      if (micro_batch >= 0) micro_batch = instance.micro_batches.at(micro_batch);
      for (BufferId& id : op.in) id = map.Find(id, micro_batch);
      for (BufferId& id : op.out) id = map.Find(id, micro_batch);
      for (OpId& wait : op.waits) wait = base.back() + wait.value();
      program.ops.push_back(std::move(op));
    }
    for (const CarriedWait& wait : instance.waits) {
      STRETTO_CHECK(wait.instance < base.next() - 1);
      const OpId op = base.back() + wait.op.value();
      program.ops.at(op).waits.push_back(base[wait.instance] + wait.producer.value());
    }
    // Waits carried from earlier instances have smaller indices but were appended last.
    for (OpId i = base.back(); i < program.ops.next(); ++i) {
      std::sort(program.ops[i].waits.begin(), program.ops[i].waits.end());
    }
  }
  return program;
}

Root RootOf(const IdVector<BufferId, Buffer>& buffers, BufferId id) {
  Root root{id, 0};
  while (buffers.at(root.buffer).alias >= 0) {
    const Buffer& buffer = buffers[root.buffer];
    root.element += buffer.alias_offset;
    root.buffer = buffer.alias;
  }
  return root;
}

}  // namespace stretto
