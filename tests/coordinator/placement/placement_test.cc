// SPDX-License-Identifier: Apache-2.0
#include "coordinator/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A worker with `slots` slots of kind 1, of which the first `taken` are taken.
WorkerView Node(const std::string& id, int32_t slots, int32_t taken = 0, bool ready = true) {
  WorkerView worker{.id = id, .ready = ready, .slots = {}};
  for (int32_t slot = 0; slot < slots; ++slot) {
    worker.slots.push_back({.slot = slot, .kind = 1, .free = slot >= taken});
  }
  return worker;
}

QueuedJob Job(const std::string& id, int32_t slots) {
  return {.id = id, .slots = slots, .kind = 1};
}

TEST(PlacementTest, GangGoesToTheWorkerThatKeepsFewestFreeSlots) {
  const Placement placement = Place({Job("j", 2)}, {Node("a", 8), Node("b", 3), Node("c", 4)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks, ElementsAre(RankSlot{"b", 0}, RankSlot{"b", 1}));
}

TEST(PlacementTest, TiesGoToTheSmallerId) {
  const Placement placement = Place({Job("j", 1)}, {Node("b", 2), Node("a", 2)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks, ElementsAre(RankSlot{"a", 0}));
}

TEST(PlacementTest, GangThatFitsNoWorkerIsSpreadOverFewest) {
  const Placement placement =
      Place({Job("j", 4)}, {Node("a", 1), Node("b", 2, 1), Node("c", 3), Node("d", 2)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks,
              ElementsAre(RankSlot{"c", 0}, RankSlot{"c", 1}, RankSlot{"c", 2}, RankSlot{"d", 0}));
}

// The ranks of a block communicate all the time, so a worker takes whole blocks where that
// suffices.
TEST(PlacementTest, BlocksAreNotCutByTheBordersOfWorkers) {
  QueuedJob job = Job("j", 4);
  job.block = 2;
  const Placement placement = Place({job}, {Node("a", 3), Node("b", 2)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks,
              ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}, RankSlot{"b", 0}, RankSlot{"b", 1}));
  EXPECT_FALSE(CutsBlock(placement.placed[0].ranks, job.block));
}

TEST(PlacementTest, BlocksAreCutOnlyWhereTheGangWouldNotFit) {
  QueuedJob job = Job("j", 4);
  job.block = 2;
  const Placement placement = Place({job}, {Node("a", 3), Node("b", 1)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks,
              ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}, RankSlot{"a", 2}, RankSlot{"b", 0}));
  EXPECT_TRUE(CutsBlock(placement.placed[0].ranks, job.block));
}

TEST(PlacementTest, GangIsPlacedWholeOrNotAtAll) {
  const Placement placement = Place({Job("j", 4)}, {Node("a", 2), Node("b", 2, 1)});
  EXPECT_THAT(placement.placed, IsEmpty());
  ASSERT_EQ(placement.unplaced.size(), 1u);
  EXPECT_EQ(placement.unplaced[0].reason, "NotEnoughSlots");
  EXPECT_EQ(placement.unplaced[0].message, "needs 4 slots; 3 free of 4 on 2 workers");
}

TEST(PlacementTest, HeadOfTheQueueIsNotOvertaken) {
  const Placement placement = Place({Job("large", 2), Job("small", 1)}, {Node("a", 2, 1)});
  EXPECT_THAT(placement.placed, IsEmpty());
  ASSERT_EQ(placement.unplaced.size(), 2u);
  EXPECT_EQ(placement.unplaced[1].reason, "BehindEarlierJob");
  EXPECT_EQ(placement.unplaced[1].message,
            "waits behind job large, which needs 2 slots; 1 free of 2 on 1 worker");
}

TEST(PlacementTest, EachKindOfSlotHasItsOwnHeadOfTheQueue) {
  WorkerView node = Node("a", 4);
  node.slots[0].kind = node.slots[1].kind = kGpuKind;
  node.slots[0].free = node.slots[2].free = false;
  QueuedJob gpus = Job("gpus", 2), gpu = Job("gpu", 1);
  gpus.kind = gpu.kind = kGpuKind;

  const Placement placement = Place({gpus, Job("core", 1), gpu, Job("more", 1)}, {node});

  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_EQ(placement.placed[0].job_id, "core");
  ASSERT_EQ(placement.unplaced.size(), 3u);
  EXPECT_EQ(placement.unplaced[0].message, "needs 2 GPUs; 1 free of 2 on 1 worker");
  EXPECT_EQ(placement.unplaced[1].message,
            "waits behind job gpus, which needs 2 GPUs; 1 free of 2 on 1 worker");
  EXPECT_EQ(placement.unplaced[2].message, "needs 1 slot; 0 free of 2 on 1 worker");
}

TEST(PlacementTest, JobTooLargeForTheClusterBlocksNobody) {
  const Placement placement = Place({Job("huge", 9), Job("small", 1)}, {Node("a", 2)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_EQ(placement.placed[0].job_id, "small");
  EXPECT_EQ(placement.unplaced[0].message, "needs 9 slots; 2 free of 2 on 1 worker");
}

TEST(PlacementTest, SlotsOfALostWorkerAreKnownButNotFree) {
  const Placement placement =
      Place({Job("j", 2)}, {Node("a", 2, 0, /*ready=*/false), Node("b", 1)});
  EXPECT_THAT(placement.placed, IsEmpty());
  EXPECT_EQ(placement.unplaced[0].message, "needs 2 slots; 1 free of 3 on 2 workers (1 lost)");
}

TEST(PlacementTest, SlotsOfAnotherKindDoNotCount) {
  WorkerView gpus = Node("a", 2);
  for (SlotView& slot : gpus.slots) slot.kind = 2;
  const Placement placement = Place({Job("j", 1)}, {gpus, Node("b", 1, 1)});
  EXPECT_THAT(placement.placed, IsEmpty());
  EXPECT_EQ(placement.unplaced[0].message, "needs 1 slot; 0 free of 1 on 1 worker");
  EXPECT_EQ(KnownSlots({gpus}, 2), 2);
  EXPECT_EQ(KnownSlots({gpus}, 1), 0);
}

TEST(PlacementTest, FaultyGpusTakeNoJobAndAreCountedApart) {
  WorkerView gpus = Node("a", 3);
  for (SlotView& slot : gpus.slots) slot.kind = kGpuKind;
  gpus.slots[1].healthy = false;
  QueuedJob two = Job("two", 2), three = Job("three", 3);
  two.kind = three.kind = kGpuKind;

  const Placement placement = Place({three, two}, {gpus});

  ASSERT_EQ(placement.placed.size(), 1u) << "a job that cannot run as things are blocks nobody";
  EXPECT_THAT(placement.placed[0].ranks, ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 2}));
  EXPECT_EQ(placement.unplaced[0].message, "needs 3 GPUs; 2 free of 2 on 1 worker (1 faulty)");
  EXPECT_EQ(KnownSlots({gpus}, kGpuKind), 2);
  EXPECT_EQ(FaultySlots({gpus}, kGpuKind), 1);
}

TEST(PlacementTest, GpuJobOnAClusterWithoutGpusSaysSo) {
  QueuedJob job = Job("j", 1);
  job.kind = kGpuKind;

  EXPECT_EQ(Place({job}, {Node("a", 2)}).unplaced[0].message,
            "needs 1 GPU; 0 free of 0 on 0 workers");
  EXPECT_EQ(Place({job}, {}).unplaced[0].message, "needs 1 GPU; no worker has registered");
}

TEST(PlacementTest, WithoutWorkersEveryJobSaysSo) {
  const Placement placement = Place({Job("j", 2)}, {});
  ASSERT_EQ(placement.unplaced.size(), 1u);
  EXPECT_EQ(placement.unplaced[0].reason, "NoWorkers");
  EXPECT_EQ(placement.unplaced[0].message, "needs 2 slots; no worker has registered");
}

TEST(PlacementTest, JobsPlacedTogetherShareNoSlot) {
  const Placement placement = Place({Job("j", 2), Job("k", 2)}, {Node("a", 3), Node("b", 2)});
  ASSERT_EQ(placement.placed.size(), 2u);
  EXPECT_THAT(placement.placed[0].ranks, ElementsAre(RankSlot{"b", 0}, RankSlot{"b", 1}));
  EXPECT_THAT(placement.placed[1].ranks, ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}));
}

}  // namespace
}  // namespace stretto::coordinator
