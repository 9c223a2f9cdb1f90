// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs of the operations of a cell: random ones, and those of a machine.

#include <random>

#include "tests/worker/engine/specs.h"
#include "worker/engine/cost/model.h"

namespace stretto {

inline constexpr double kRounding = 1e-6;  // simulated times are whole nanoseconds

// A size at which memory and the link count. A product of a layer takes about as long as a
// collective at 0.5 Gbit/s.
inline EngineSpec LargeSpec(const Layout& layout, int vocab_size = 8000) {
  return SpecOf(layout, {.hidden = 768,
                         .heads = 12,
                         .kv_heads = layout.family == Family::kGpt ? 0 : 4,
                         .ffn_hidden = 3072,
                         .sequence_length = 256,
                         .vocab_size = vocab_size});
}

inline CostModel LargeCosts(double gbps) {
  CostModel cost;
  cost.machine = {.flops_per_second = 1e11, .bytes_per_second = 1e10};
  cost.interconnect.bytes_per_second = gbps * 1e9 / 8;
  return cost;
}

// Products take several times as long as the rest, and collectives up to as long as a product.
// Transfers take no time, as in a cell.
inline void AddRandomCosts(const StepProgram& step, std::mt19937* random, CostModel* cost) {
  for (const Unit& unit : step.units) {
    for (const Op& op : unit.ops) {
      const bool long_one = op.group >= 0 ||
                            InfoOf(op.kind).role == OperationRole::kWeightGradient ||
                            op.kind == OpKind::kGemm || op.kind == OpKind::kGemmDgrad;
      const double seconds = static_cast<double>(1 + (*random)() % 1000) * (long_one ? 1e-3 : 1e-4);
      cost->table.Set(TagKey(op), IsTransfer(op.kind) ? 0 : seconds);
    }
  }
}

}  // namespace stretto
