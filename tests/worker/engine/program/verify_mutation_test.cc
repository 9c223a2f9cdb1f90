// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/delete_waits.h"
#include "tests/worker/engine/program/programs.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

void ExpectEveryWaitIsNeeded(const Layout& layout) {
  for (Rank rank : IdRange<Rank>(layout.tp_size)) {
    const RankPlan plan = PlanOf(layout, rank);
    const WaitCounts counts = ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas);
    // Each collective waits and is waited for: embedding, two per layer and three in the head,
    // forward; one in the head and two per layer, backward; the norm.
    const int slices = static_cast<int>(layout.slices.size());
    const int collectives =
        slices * layout.micro_batches * (4 + 2 * layout.layers + 2 * layout.layers) + 1;
    EXPECT_EQ(counts.needed, 2 * collectives);
    EXPECT_EQ(counts.redundant, 0);
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

// kLinear with a third lane that reads the input.
Program WithReader(absl::string_view waits) {
  return ProgramOf(absl::StrCat(With(kLinear, "lane compute\n", "lane compute\nlane copy\n"),
                                "buffer %4 b f32 4,8 activation\n"
                                "3 copy gelu L0.act fwd in=%0 out=%4",
                                waits, "\n"));
}

// Every buffer at a place of its own.
ArenaBytes Spread(Program* program) {
  ArenaBytes arenas = {};
  for (Buffer& buffer : program->buffers) {
    int64_t& end = arenas[buffer.arena];
    buffer.offset = end;
    end += buffer.bytes();
  }
  return arenas;
}

TEST(WaitMutationTest, AWaitThatNothingNeedsIsFound) {
  Program program = WithReader(" wait=0");
  const ArenaBytes arenas = Spread(&program);
  EXPECT_NONFATAL_FAILURE(ExpectEveryWaitNeededOrRedundant(program, arenas),
                          "nothing needs wait 0 of 3 copy gelu L0.act fwd in=%0 out=%4 wait=0");
}

TEST(WaitMutationTest, AReuseOfMemoryMayNeedAWait) {
  Program program = WithReader(" wait=2");
  ArenaBytes arenas = Spread(&program);
  program.buffers[4].offset = program.buffers[2].offset;  // after its last reader
  const WaitCounts counts = ExpectEveryWaitNeededOrRedundant(program, arenas);
  EXPECT_EQ(counts.needed, 3);
}

TEST(WaitMutationTest, AWaitThatAnotherCoversIsRedundant) {
  Program program = ProgramOf(With(kLinear, "wait=1", "wait=0,1"));
  const ArenaBytes arenas = Spread(&program);
  const WaitCounts counts = ExpectEveryWaitNeededOrRedundant(program, arenas);
  EXPECT_EQ(counts.needed, 2);
  EXPECT_EQ(counts.redundant, 1);
}

TEST(WaitMutationTest, AProgramThatDoesNotVerifyFails) {
  Program program = ProgramOf(With(kLinear, " wait=1", ""));
  const ArenaBytes arenas = Spread(&program);
  EXPECT_NONFATAL_FAILURE(ExpectEveryWaitNeededOrRedundant(program, arenas),
                          "race: 2 compute gelu");
}

}  // namespace
}  // namespace stretto
