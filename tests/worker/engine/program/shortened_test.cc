// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/shortened.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// begin, then `repeats` times forward and backward of a micro-batch, then finish. Each backward
// waits for its forward and for the backward before; finish for the last backward and for begin.
StepProgram Alternating(int repeats) {
  StepProgram step;
  step.micro_batches = repeats;
  step.lanes = {Lane{"compute"}};
  step.buffers = {{.name = "x", .shape = {4}}};
  Op op;
  op.out = {0};
  Op in_micro_batch = op;
  in_micro_batch.tag.micro_batch = 0;
  step.units = {{"begin", {op}},
                {"forward", {in_micro_batch}},
                {"backward", {in_micro_batch}},
                {"finish", {op}}};
  step.instances = {{.unit = 0, .micro_batches = {}, .waits = {}}};
  for (int mb = 0; mb < repeats; ++mb) {
    step.instances.push_back({.unit = 1, .micro_batches = {mb}, .waits = {{0, 0, 0}}});
    step.instances.push_back(
        {.unit = 2, .micro_batches = {mb}, .waits = {{0, InstanceId::Of(2 * mb + 1), 0}}});
    if (mb > 0) step.instances.back().waits.push_back({0, InstanceId::Of(2 * mb), 0});
  }
  step.repeat = {.begin = 1, .end = step.instances.next(), .period = 2};
  step.instances.push_back(
      {.unit = 3, .micro_batches = {}, .waits = {{0, 0, 0}, {0, InstanceId::Of(2 * repeats), 0}}});
  return step;
}

std::string TextOf(const StepProgram& step) { return Print(Expand(step)); }

TEST(ShortenedTest, AShortStepStaysAsItIs) {
  for (int repeats = 1; repeats <= 6; ++repeats) {
    const StepProgram step = Alternating(repeats);
    EXPECT_EQ(TextOf(*Shortened(step)), TextOf(step));
  }
}

TEST(ShortenedTest, ALongStepBecomesTheShortOne) {
  const std::string six = TextOf(Alternating(6));
  for (int repeats : {7, 8, 20, 64}) EXPECT_EQ(TextOf(*Shortened(Alternating(repeats))), six);
}

TEST(ShortenedTest, WhatBelongsTogetherIsKeptOrLeftOutTogether) {
  EXPECT_EQ(Shortened(Alternating(20), 2)->micro_batches, 12);
  EXPECT_EQ(Shortened(Alternating(21), 3)->micro_batches, 18);
  EXPECT_EQ(Shortened(Alternating(12), 2)->micro_batches, 12);
  EXPECT_EQ(Shortened(Alternating(64), 64)->micro_batches, 64);
}

TEST(ShortenedTest, MicroBatchesInFlightAllowForMore) {
  StepProgram step = Alternating(20);
  step.buffers[0].slots = 3;
  EXPECT_EQ(Shortened(step)->micro_batches, 9);
  EXPECT_EQ(Shortened(step, 4)->micro_batches, 24 - 4);  // six times four are more than there are
  EXPECT_EQ(Shortened(Alternating(64), 4, 10)->micro_batches, 32);
}

// A period of two micro-batches: forward of both, then backward of both.
StepProgram InPairs(int micro_batches) {
  StepProgram step = Alternating(micro_batches);
  for (InstanceId i = 1; i + 3 < step.instances.next() - 1; i = i + 4)
    std::swap(step.instances[i + 1], step.instances[i + 2]);
  for (InstanceId i = 1; i < step.instances.next() - 1; ++i)
    step.instances[i].waits = {{0, i - 1, 0}};
  step.repeat = {.begin = 1, .end = step.instances.next() - 1, .period = 4, .stride = 2};
  return step;
}

TEST(ShortenedTest, WholePeriodsOfAStrideAreLeftOut) {
  EXPECT_EQ(TextOf(*Shortened(InPairs(20))), TextOf(InPairs(6)));
  EXPECT_EQ(Shortened(InPairs(20), 3)->micro_batches, 20);  // 18 would be three and two
  EXPECT_EQ(Shortened(InPairs(24), 3)->micro_batches, 18);
  EXPECT_EQ(TextOf(*Lengthened(*Shortened(InPairs(20)), 20)), TextOf(InPairs(20)));
}

TEST(ShortenedTest, WhatDoesNotRepeatStaysAsItIs) {
  StepProgram step = Alternating(20);
  step.repeat = {};
  EXPECT_EQ(TextOf(*Shortened(step)), TextOf(step));
}

TEST(ShortenedTest, ARepeatThatTheInstancesDoNotHaveIsRefused) {
  const auto message = [](const std::function<void(StepProgram*)>& change) {
    StepProgram step = Alternating(20);
    change(&step);
    EXPECT_EQ(Lengthened(step, 21).status().code(), absl::StatusCode::kInternal);
    return std::string(Shortened(step).status().message());
  };
  EXPECT_THAT(message([](StepProgram* step) { step->instances[8].unit = 1; }),
              HasSubstr("instance 8: found another unit or stride, expected those of instance 6, 1 "
                        "micro-batches later"));
  EXPECT_THAT(message([](StepProgram* step) { step->instances[8].micro_batches = {4}; }),
              HasSubstr("instance 8: found another"));
  EXPECT_THAT(message([](StepProgram* step) { step->repeat.period = 3; }),
              HasSubstr("repeat: found [1, 41) with period 3, expected whole periods of 42"));
  EXPECT_THAT(message([](StepProgram* step) { step->repeat.end = 45; }),
              HasSubstr("repeat: found [1, 45) with period 2"));
}

// finish waits for the first backward, far from the end: what that would be in a short step is
// anybody's guess.
TEST(ShortenedTest, AWaitThatReachesFarBackKeepsTheStepWhole) {
  StepProgram step = Alternating(20);
  step.instances.back().waits = {{0, 2, 0}};
  EXPECT_EQ(TextOf(*Shortened(step)), TextOf(step));
}

TEST(LengthenedTest, IsTheInverse) {
  for (int repeats : {6, 7, 20, 64}) {
    const StepProgram step = Alternating(repeats);
    EXPECT_EQ(TextOf(*Lengthened(*Shortened(step), repeats)), TextOf(step)) << repeats;
  }
}

TEST(LengthenedTest, WhatRepeatsOnceOrByAnotherStrideIsRefused) {
  EXPECT_THAT(std::string(Lengthened(Alternating(1), 3).status().message()),
              HasSubstr("a step of 1 micro-batches that repeats 1 times by 1: cannot be lengthened "
                        "to 3"));
  EXPECT_FALSE(Lengthened(Alternating(4), 3).ok());
}

TEST(LengthenedTest, RepeatsWovenInstances) {
  StepProgram step = Alternating(4);
  step.units[1].ops.push_back(step.units[1].ops[0]);
  step.units[1].ops[1].tag.micro_batch = 1;
  step.instances = {{.unit = 2, .micro_batches = {0}, .waits = {}},
                    {.unit = 1, .micro_batches = {1, 0}, .waits = {{0, 0, 0}}},
                    {.unit = 1, .micro_batches = {2, 1}, .waits = {{0, 1, 0}}},
                    {.unit = 1, .micro_batches = {3, 2}, .waits = {{0, 2, 0}}},
                    {.unit = 2, .micro_batches = {3}, .waits = {{0, 3, 0}}}};
  step.repeat = {.begin = 1, .end = 4};
  const StepProgram longer = *Lengthened(step, 6);
  EXPECT_EQ(longer.micro_batches, 6);
  ASSERT_EQ(longer.instances.size(), 7u);
  EXPECT_THAT(longer.instances[3].micro_batches, ElementsAre(3, 2));
  EXPECT_THAT(longer.instances[5].micro_batches, ElementsAre(5, 4));
  EXPECT_EQ(longer.instances[5].waits[0].instance, 4);
  EXPECT_THAT(longer.instances[6].micro_batches, ElementsAre(5));
  EXPECT_EQ(longer.instances[6].waits[0].instance, 5);
}

TEST(LengthenedTest, RepeatsInstancesOfSeveralMicroBatches) {
  StepProgram step = Alternating(6);
  step.instances = {{.unit = 1, .micro_batches = {0, 1}, .waits = {}},
                    {.unit = 1, .micro_batches = {2, 3}, .waits = {{0, 0, 0}}},
                    {.unit = 1, .micro_batches = {4, 5}, .waits = {{0, 1, 0}}},
                    {.unit = 2, .micro_batches = {5}, .waits = {{0, 2, 0}}}};
  step.repeat = {.begin = 0, .end = 3, .stride = 2};
  const StepProgram longer = *Lengthened(step, 10);
  EXPECT_EQ(longer.micro_batches, 10);
  ASSERT_EQ(longer.instances.size(), 6u);
  EXPECT_THAT(longer.instances[4].micro_batches, ElementsAre(8, 9));
  EXPECT_EQ(longer.instances[4].waits[0].instance, 3);
  EXPECT_THAT(longer.instances[5].micro_batches, ElementsAre(9));
  EXPECT_EQ(longer.instances[5].waits[0].instance, 4);
}

// Waits found in a short step and repeated are those found in the whole.
TEST(LengthenedTest, LanesAndWaitsOfAShortStepAreThoseOfTheWhole) {
  for (const std::vector<int>& slices : {std::vector<int>{1, 1}, {2, 1, 1}}) {
    StepProgram step = PlanOf(Domino(slices, 15)).step;
    for (Unit& unit : step.units) {
      for (Op& op : unit.ops) op.waits.clear();
    }
    for (Instance& instance : step.instances) instance.waits.clear();
    StepProgram shorter = *Shortened(step);
    EXPECT_LT(shorter.instances.size(), step.instances.size());
    ASSERT_TRUE(AssignLanesAndWaits({}, &step).ok());
    ASSERT_TRUE(AssignLanesAndWaits({}, &shorter).ok());
    EXPECT_EQ(TextOf(*Lengthened(shorter, 15)), TextOf(step));
  }
}

}  // namespace
}  // namespace stretto
