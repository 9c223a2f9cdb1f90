// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/reorder/expand_unit.h"

#include <algorithm>
#include <numeric>

namespace stretto {

Program ExpandUnit(const StepProgram& step, UnitId unit) {
  StepProgram alone = {.rank = step.rank,
                       .world_size = step.world_size,
                       .micro_batches = step.micro_batches,
                       .groups = step.groups,
                       .lanes = step.lanes,
                       .buffers = step.buffers,
                       .units = {step.units.at(unit)},
                       .instances = {}};
  int roles = 1;
  for (const Op& op : alone.units[0].ops) roles = std::max(roles, op.tag.micro_batch + 1);
  Instance instance = {.unit = 0, .micro_batches = std::vector<int>(roles), .waits = {}};
  std::iota(instance.micro_batches.begin(), instance.micro_batches.end(), 0);
  alone.instances.push_back(std::move(instance));
  return Expand(alone);
}

}  // namespace stretto
