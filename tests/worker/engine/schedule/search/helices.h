// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps that helix weaves, and what is found for them.

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/search/find_weave.h"

namespace stretto {

// Families, sequence parallelism, slices and what is recomputed.
inline std::vector<Layout> ManyHelices(int layers) {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (const std::vector<int>& slices : {std::vector<int>{2}, {1, 1}}) {
          layouts.push_back({.family = family,
                             .schedule = "helix",
                             .slices = slices,
                             .sequence_parallel = sequence_parallel,
                             .recompute = recompute,
                             .micro_batches = 3,
                             .layers = layers});
        }
      }
    }
  }
  return layouts;
}

inline FoundWeave Find(const StepProgram& step, const CostModel& cost, int pace,
                       WeaveForm form = WeaveForm::kEvents) {
  const auto found = FindWeaves({&step}, cost, PrintWeavePlan({.pace = pace}), form);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? found->at(0) : FoundWeave{};
}

// A core that is shared, by pair.
inline CostModel WithContention(CostModel cost, std::mt19937* random) {
  const auto share = [&] { return static_cast<double>((*random)() % 60) * 1e-2; };
  for (ComputeClass compute : kComputeClasses) {
    for (CollectiveKind collective :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather})
      cost.pairs[{compute, collective}] = {
          .compute = share(), .communication = share() / 2, .turn_seconds = share() * 1e-2};
  }
  return cost;
}

}  // namespace stretto
