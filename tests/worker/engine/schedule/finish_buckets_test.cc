// SPDX-License-Identifier: Apache-2.0

// Sums over replicas start where a layer's backward ends, not a layer later.

#include <string>

#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

TEST(FinishBucketsTest, ALayersSumRunsUnderTheLayerBelowIt) {
  for (const ScheduleRules& rules : kSchedules) {
    if (rules.synchronous) continue;
    for (int tp_size : {1, 2}) {
      Layout layout = LayoutOf(rules.name, 2);
      layout.micro_batches = 2;
      layout.tp_size = tp_size;
      layout.dp_size = 2;
      const Positions at(PlanOf(layout).program);
      OpId sum = -1;
      for (OpId op : at.program().ops.ids()) {
        if (at.op(op).group == FindGroup(at.program().groups, kDpGroupName) &&
            at.op(op).tag.name == "layers.1.attention")
          sum = op;
      }
      ASSERT_TRUE(sum >= 0);
      const int slice = rules.sliced() ? 1 : 0;
      at.ExpectUnder(sum, at.At(OpKind::kGemmDgrad, "L0.fc2 bwd s" + std::to_string(slice), 1));
      EXPECT_TRUE(at.Before(at.At(OpKind::kLayerNormDgrad, "L1.ln1 bwd s0", 1), sum));
    }
  }
}

// Without replicas the gradients of norms stand where they delay nothing.
TEST(FinishBucketsTest, OneReplicaHasNoBuckets) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  EXPECT_TRUE(at.Before(at.At(OpKind::kGemmDgrad, "L0.qkv bwd s1"),
                        at.At(OpKind::kLayerNormWgrad, "L1.ln1 bwd s0")));
}

}  // namespace
}  // namespace stretto
