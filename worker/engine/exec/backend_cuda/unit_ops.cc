// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/unit_ops.h"

#include <algorithm>
#include <iterator>

namespace stretto::cuda {

UnitOps::UnitOps(const StepProgram& step) : step_(&step) {
  OpId first = 0;
  for (const Instance& instance : step.instances) {
    first_.push_back(first);
    first = first + std::ssize(step.units[instance.unit].ops);
  }
}

UnitOps::Place UnitOps::Find(OpId op) const {
  const auto next = std::upper_bound(first_.begin(), first_.end(), op);
  const InstanceId id = InstanceId::Of(next - first_.begin() - 1);
  const Instance& instance = step_->instances[id];
  const OpId position = OpId::Of(op - first_[id]);
  const int role = step_->units[instance.unit].ops[position].tag.micro_batch;
  return {instance.unit, position, role < 0 ? role : instance.micro_batches[role]};
}

}  // namespace stretto::cuda
