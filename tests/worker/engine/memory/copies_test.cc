// SPDX-License-Identifier: Apache-2.0

// Copies that micro-batches need, in steps made by hand: units that write and read buffers.

#include "worker/engine/memory/copies.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stretto {
namespace {

Op Touches(BufferId id, int role = 0, OpKind kind = OpKind::kZero) {
  Op op;
  op.kind = kind;
  op.tag.micro_batch = role;
  op.out = {id};
  return op;
}

// Buffer 0 has four elements; 1 and 2 are views of its halves.
StepProgram StepOf(std::vector<Unit> units, const std::vector<std::pair<int, std::vector<int>>>& of,
                   int micro_batches) {
  StepProgram step;
  step.micro_batches = micro_batches;
  step.buffers = {{.name = "whole", .shape = {4}},
                  {.name = "low", .shape = {2}, .alias = 0},
                  {.name = "high", .shape = {2}, .alias = 0, .alias_offset = 2}};
  for (Unit& unit : units) step.units.push_back(std::move(unit));
  for (const auto& [unit, bound] : of)
    step.instances.push_back({.unit = UnitId::Of(unit), .micro_batches = bound, .waits = {}});
  return step;
}

int CopiesIn(StepProgram step) {
  KeepCopies(&step);
  for (const Buffer& buffer : step.buffers) EXPECT_EQ(buffer.slots, step.buffers[0].slots);
  return step.buffers[0].slots;
}

TEST(KeepCopiesTest, AsManyAsMicroBatchesAreInFlight) {
  const std::vector<Unit> units = {{"write", {Touches(0)}}, {"read", {Touches(0)}}};
  EXPECT_EQ(CopiesIn(StepOf(units, {{0, {0}}, {1, {0}}, {0, {1}}, {1, {1}}}, 2)), 1);
  EXPECT_EQ(
      CopiesIn(StepOf(units, {{0, {0}}, {0, {1}}, {1, {0}}, {0, {2}}, {1, {1}}, {1, {2}}}, 3)), 2);
}

TEST(KeepCopiesTest, TheTailOfAnotherMicroBatchCounts) {
  const Unit alone = {"alone", {Touches(0)}};
  const Unit before = {"before", {Touches(0, 1), Touches(0)}};  // the tail first
  const Unit behind = {"behind", {Touches(0), Touches(0, 1)}};
  EXPECT_EQ(CopiesIn(StepOf({alone, before}, {{0, {0}}, {1, {1, 0}}, {1, {2, 1}}}, 3)), 1);
  EXPECT_EQ(CopiesIn(StepOf({alone, behind}, {{0, {0}}, {1, {1, 0}}, {1, {2, 1}}}, 3)), 2);
}

TEST(KeepCopiesTest, RowsOfOneBufferAreNoCopies) {
  // Two micro-batches write a half each, and the second reads both.
  const Unit merged = {"merged", {Touches(1, 0), Touches(2, 1), Touches(0, 1)}};
  EXPECT_EQ(CopiesIn(StepOf({merged}, {{0, {0, 1}}, {0, {2, 3}}}, 4)), 1);
}

TEST(KeepCopiesTest, ViewsOfOneMicroBatchLiveTogether) {
  const std::vector<Unit> units = {{"write", {Touches(1), Touches(2)}}, {"read", {Touches(0)}}};
  EXPECT_EQ(CopiesIn(StepOf(units, {{0, {0}}, {0, {1}}, {1, {0}}, {1, {1}}}, 2)), 2);
}

// Micro-batch 2 uses copy 0 or 2 of the memory that 0 still needs, whatever 1 does.
TEST(KeepCopiesTest, AMicroBatchThatUsesNothingIsCounted) {
  const std::vector<Unit> units = {{"write", {Touches(0)}}, {"read", {Touches(0)}}};
  EXPECT_EQ(CopiesIn(StepOf(units, {{0, {0}}, {0, {2}}, {1, {0}}, {1, {2}}}, 4)), 3);
}

TEST(KeepCopiesTest, WhatCrossesHasOneMoreButNeverMoreThanMicroBatches) {
  const Unit pass = {"pass", {Touches(0, 0, OpKind::kRecv), Touches(0)}};
  EXPECT_EQ(CopiesIn(StepOf({pass}, {{0, {0}}, {0, {1}}, {0, {2}}}, 3)), 2);
  EXPECT_EQ(CopiesIn(StepOf({pass}, {{0, {0}}}, 1)), 1);
}

TEST(KeepCopiesTest, WhatNoMicroBatchUsesKeepsItsSlots) {
  StepProgram step = StepOf({{"pass", {}}}, {{0, {0}}}, 1);
  step.buffers[0].slots = step.buffers[1].slots = step.buffers[2].slots = kPerMicroBatch;
  EXPECT_EQ(CopiesIn(std::move(step)), kPerMicroBatch);
}

}  // namespace
}  // namespace stretto
