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
  return {.id = id, .gang = {.stages = {{.blocks = slots}}}, .kind = 1};
}

QueuedJob Staged(std::vector<StageBlocks> stages) {
  return {.id = "j", .gang = {.stages = std::move(stages)}, .kind = 1};
}

// Tries a queue in its order; the first job of a kind that does not fit blocks the later ones.
Placement Place(const std::vector<QueuedJob>& queue, std::vector<WorkerView> workers) {
  Placer placer(std::move(workers));
  Placement placement;
  std::map<int32_t, const QueuedJob*> heads;  // by kind: the job that blocks it
  for (const QueuedJob& job : queue) {
    const auto head = heads.find(job.kind);
    if (head == heads.end() && placer.IsPossible(job)) {
      std::vector<RankSlot> ranks = placer.Take(job);
      if (!ranks.empty()) {
        placement.placed.push_back({job.id, std::move(ranks)});
        continue;
      }
    }
    placement.unplaced.push_back(
        placer.WhyWaiting(job, head == heads.end() ? nullptr : head->second));
    if (head == heads.end() && placer.IsPossible(job)) heads.emplace(job.kind, &job);
  }
  return placement;
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
  const QueuedJob job = Staged({{.blocks = 2, .size = 2}});
  const Placement placement = Place({job}, {Node("a", 3), Node("b", 2)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks,
              ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}, RankSlot{"b", 0}, RankSlot{"b", 1}));
  EXPECT_FALSE(CutsBlock(placement.placed[0].ranks, job.gang));
}

TEST(PlacementTest, ABlockThatNoWorkerHasRoomForWaitsAndSaysHowToLetItSpanWorkers) {
  const std::string advice = " (set placement.split_blocks to let one span workers)";
  const auto message = [](const QueuedJob& job, const std::vector<WorkerView>& workers) {
    const Placement placement = Place({job}, workers);
    EXPECT_THAT(placement.placed, IsEmpty());
    EXPECT_EQ(placement.unplaced.at(0).reason, "NotEnoughSlots");
    return placement.unplaced.at(0).message;
  };
  const QueuedJob two_blocks = Staged({{.blocks = 2, .size = 4}});
  EXPECT_EQ(
      message(two_blocks, {Node("a", 3), Node("b", 3), Node("c", 2)}),
      "needs 8 slots; 8 free of 8 on 3 workers, but no worker has room for a block of 4" + advice);
  EXPECT_EQ(message(two_blocks, {Node("a", 7), Node("b", 1)}),
            "needs 8 slots; 8 free of 8 on 2 workers, but whole blocks find room for 1 of 2 only" +
                advice);
  // A block that fits nowhere does not hide that slots are missing.
  EXPECT_EQ(message(two_blocks, {Node("a", 3), Node("b", 4, 1)}),
            "needs 8 slots; 6 free of 7 on 2 workers");
}

TEST(PlacementTest, AJobWhoseBlocksFitNoWorkerBlocksNobody) {
  QueuedJob job = Staged({{.blocks = 1, .size = 4}});
  job.id = "wide";
  const std::vector<WorkerView> workers = {Node("a", 3), Node("b", 3)};
  const Placement placement = Place({job, Job("small", 1)}, workers);
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_EQ(placement.placed[0].job_id, "small");
  // Where they would fit if the cluster were free, it keeps its turn.
  const Placement waiting = Place({job, Job("small", 1)}, {Node("a", 4, 1), Node("b", 3)});
  EXPECT_THAT(waiting.placed, IsEmpty());
  EXPECT_EQ(waiting.unplaced[1].reason, "BehindEarlierJob");
}

TEST(PlacementTest, BlocksAreCutOnlyWhereTheJobAllowsItAndWouldNotFit) {
  QueuedJob job = Staged({{.blocks = 2, .size = 2}});
  job.gang.split_blocks = true;
  EXPECT_FALSE(CutsBlock(Place({job}, {Node("a", 3), Node("b", 2)}).placed.at(0).ranks, job.gang));
  const Placement placement = Place({job}, {Node("a", 3), Node("b", 1)});
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_THAT(placement.placed[0].ranks,
              ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}, RankSlot{"a", 2}, RankSlot{"b", 0}));
  EXPECT_TRUE(CutsBlock(placement.placed[0].ranks, job.gang));
}

// By rank.
std::string WorkersOf(const QueuedJob& job, const std::vector<WorkerView>& workers) {
  const Placement placement = Place({job}, workers);
  if (placement.placed.empty()) return placement.unplaced.at(0).message;
  std::string text;
  for (const RankSlot& rank : placement.placed[0].ranks) text += rank.worker;
  return text;
}

TEST(PlacementTest, StagesAreCutByAsFewBordersAsPossible) {
  const StageBlocks pair = {.blocks = 2, .size = 2};
  EXPECT_EQ(WorkersOf(Staged({pair, pair}), {Node("a", 4), Node("b", 4)}), "aaaabbbb");
  // Room for three blocks each: one stage is whole on each, and the third is cut.
  EXPECT_EQ(WorkersOf(Staged({pair, pair, pair}), {Node("a", 6), Node("b", 6)}), "aaaabbbbaabb");
  // The last blocks of a stage go to the worker that keeps least room.
  const StageBlocks three = {.blocks = 3, .size = 2};
  EXPECT_EQ(WorkersOf(Staged({three, three}), {Node("a", 4), Node("b", 4), Node("c", 4)}),
            "aaaabbccccbb");
  // A stage that fits on a worker goes there before one that must be cut takes its room.
  EXPECT_EQ(WorkersOf(Staged({{.blocks = 4, .size = 2}, three}),
                      {Node("a", 6), Node("b", 4), Node("c", 4)}),
            "bbbbccccaaaaaa");
}

TEST(PlacementTest, NeighbouringStagesShareAWorker) {
  const StageBlocks stage = {.blocks = 1, .size = 2};
  EXPECT_EQ(WorkersOf(Staged({stage, stage, stage, stage}), {Node("a", 4), Node("b", 4)}),
            "aaaabbbb");
}

TEST(PlacementTest, AsFewWorkersAsPossibleComeBeforeWholeStages) {
  const StageBlocks stage = {.blocks = 2, .size = 1};
  // Four workers would cut no stage.
  EXPECT_EQ(WorkersOf(Staged({stage, stage, stage}),
                      {Node("a", 3), Node("b", 3), Node("c", 2), Node("d", 2)}),
            "aabbab");
}

TEST(PlacementTest, StagesMayHaveBlocksOfTheirOwnSize) {
  const StageBlocks small = {.blocks = 1, .size = 2}, large = {.blocks = 1, .size = 4};
  // The small stage must not take the room of the large one.
  EXPECT_EQ(WorkersOf(Staged({small, large}), {Node("a", 4), Node("b", 2)}), "bbaaaa");
  // Here its whole blocks find room only if it is cut.
  const StageBlocks two_small = {.blocks = 2, .size = 2}, two_large = {.blocks = 2, .size = 4};
  EXPECT_EQ(WorkersOf(Staged({two_small, two_large}), {Node("a", 6), Node("b", 6)}),
            "aabbaaaabbbb");
  EXPECT_EQ(WorkersOf(Staged({large, small, small}), {Node("a", 5), Node("b", 3)}),
            "needs 8 slots; 8 free of 8 on 2 workers, but whole blocks find room for 2 of 3 only "
            "(set placement.split_blocks to let one span workers)");
}

// 10,240 ranks on 1,280 workers.
TEST(PlacementTest, ALargeJobIsPlaced) {
  QueuedJob job = Staged(std::vector<StageBlocks>(16, {.blocks = 80, .size = 8}));
  std::vector<WorkerView> workers;
  for (int i = 0; i < 1280; ++i) workers.push_back(Node(std::to_string(10000 + i), 8));
  const Placement placement = Place({job}, workers);
  ASSERT_EQ(placement.placed.size(), 1u);
  EXPECT_EQ(placement.placed[0].ranks.size(), 10240u);
  EXPECT_FALSE(CutsBlock(placement.placed[0].ranks, job.gang));
  EXPECT_EQ(placement.placed[0].ranks.back(), (RankSlot{"11279", 7}));
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

// As of a job's other layouts.
TEST(PlacementTest, WhatIsImpossibleNamesWhatTheClusterHas) {
  const Placer placer({Node("a", 2, 1), Node("b", 1, 0, /*ready=*/false)});
  EXPECT_EQ(placer.WhyImpossible(Job("j", 9)), "needs 9 slots; this cluster has 3 on 2 workers");
  QueuedJob blocks = Staged({{.blocks = 1, .size = 3}});
  EXPECT_EQ(
      placer.WhyImpossible(blocks),
      "needs 3 slots in blocks of up to 3; this cluster has 3 on 2 workers, at most 2 on one");
  blocks.kind = kGpuKind;
  blocks.gang.split_blocks = true;
  EXPECT_EQ(placer.WhyImpossible(blocks), "needs 3 GPUs; this cluster has 0 on 0 workers");
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
  EXPECT_EQ(Placer({gpus}).KnownSlots(2), 2);
  EXPECT_EQ(Placer({gpus}).KnownSlots(1), 0);
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
  EXPECT_EQ(Placer({gpus}).KnownSlots(kGpuKind), 2);
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
