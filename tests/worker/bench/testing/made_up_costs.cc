// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/bench/testing/made_up_costs.h"

#include "worker/bench/common/machine.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {

CostProfile MadeUpCosts(const std::vector<EngineSpec>& specs) {
  CostProfile costs{.machine = *CpuKind(), .build = "none"};
  costs.latency_seconds = {1e-5, 0};
  costs.bytes_per_second = {1e8, 0};
  costs.cpu_share = 0.125;
  for (const EngineSpec& spec : specs) {
    for (Rank rank : IdRange<Rank>(spec.world_size())) {
      const Program program = DraftPlan(spec, rank)->program;
      for (const Op& op : program.ops) {
        if (!IsCollective(op.kind)) costs.operations[OperationKey(program, op)] = {1e-3, 0};
      }
    }
  }
  return costs;
}

EngineSpec TwoStages() {
  return *SpecOf({.preset = "gpt-tiny",
                  .layers = 2,
                  .hidden = 32,
                  .heads = 4,
                  .sequence = 16,
                  .tp = 1,
                  .pp = 2,
                  .micro_batch = 2,
                  .micro_batches = 6});
}

}  // namespace stretto::bench
