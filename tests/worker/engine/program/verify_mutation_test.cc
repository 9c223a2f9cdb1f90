// Both public Domino code bases shipped a missing wait. Here each wait of our programs is deleted
// in turn.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

void ExpectEveryWaitIsNeeded(const Shape& shape) {
  for (int rank = 0; rank < shape.tp_size; ++rank) {
    RankPlan plan = PlanOf(shape, rank);
    int waits = 0;
    for (Op& op : plan.program.ops) {
      for (size_t i = 0; i < op.waits.size(); ++i) {
        const std::vector<int> all = op.waits;
        op.waits.erase(op.waits.begin() + static_cast<std::ptrdiff_t>(i));
        const absl::Status status = Verify(plan.program, &plan.arenas);
        op.waits = all;
        ++waits;
        ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
            << PrintOp(plan.program, static_cast<int>(&op - plan.program.ops.data()))
            << " without wait " << i;
      }
    }
    // Each collective waits and is waited for: embedding, two per layer and three in the head,
    // forward; one in the head and two per layer, backward; the norm.
    const int slices = static_cast<int>(shape.slices.size());
    const int collectives =
        slices * shape.micro_batches * (4 + 2 * shape.layers + 2 * shape.layers) + 1;
    EXPECT_EQ(waits, 2 * collectives);
    EXPECT_TRUE(Verify(plan.program, &plan.arenas).ok());
  }
}

TEST(WaitMutationTest, MegatronSyncNeedsEveryWait) {
  ExpectEveryWaitIsNeeded({.schedule = "megatron_sync", .slices = {2}, .micro_batches = 2});
}

TEST(WaitMutationTest, DominoRowOfTwoSlicesNeedsEveryWait) {
  ExpectEveryWaitIsNeeded(Domino({1, 1}, 2));
}

TEST(WaitMutationTest, DominoRowOfThreeSlicesNeedsEveryWait) {
  ExpectEveryWaitIsNeeded(Domino({1, 2, 1}, 2));
}

}  // namespace
}  // namespace stretto
