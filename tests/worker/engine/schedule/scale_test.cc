// SPDX-License-Identifier: Apache-2.0

// Planning must stay close to linear: a large model with many micro-batches plans in the time that
// a few steps take, also in stages that keep many micro-batches.

#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/spec/pipelines.h"
#include "tests/reference_seconds.h"
#include "tests/worker/engine/schedule/search/costs.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/skeleton.h"
#include "worker/engine/schedule/search/find_weave.h"

namespace stretto {
namespace {

void ExpectPlannedWithin(double bound, const EngineSpec& spec, size_t operations) {
  size_t found = 0;
  const double seconds = ReferenceSeconds(bound, [&] {
    const absl::StatusOr<RankPlan> plan = BuildPlan(spec, 0);
    ASSERT_TRUE(plan.ok()) << plan.status();
    found = plan->program.ops.size();
  });
  std::cout << found << " operations in " << seconds << " s\n";
  EXPECT_GT(found, operations);
  EXPECT_LT(seconds, bound);
}

TEST(ScaleTest, NinetySixLayersOfSixtyFourMicroBatchesArePlannedAndVerifiedInTwoSeconds) {
  ExpectPlannedWithin(kBoundSeconds, SpecOf(Domino({1, 1}, 64, 96)), 64 * 96 * 2 * 30);
}

// The woven form with the most operations.
TEST(ScaleTest, WovenMicroBatchesAreProvedAndPlannedInTwoSeconds) {
  Layout layout = Domino({1, 1}, 64, 96);
  layout.schedule = "helix";
  layout.sequence_parallel = true;
  ExpectPlannedWithin(kBoundSeconds, SpecOf(layout), size_t{64} * 96 * 2 * 36);
}

// The cell with the most operations; in two slices, which are twice as many, in twice the time.
TEST(ScaleTest, APlanForNinetySixLayersIsFoundInAFifthOfASecond) {
  for (const std::vector<int>& slices : {std::vector<int>{2}, {1, 1}}) {
    Layout layout = {.schedule = "helix", .slices = slices, .micro_batches = 3, .layers = 96};
    layout.sequence_parallel = true;
    const absl::StatusOr<RankPlan> draft = DraftPlan(LargeSpec(layout), 0);
    ASSERT_TRUE(draft.ok()) << draft.status();
    const double bound = kBoundSeconds / 10 * static_cast<double>(slices.size());
    const double seconds = ReferenceSeconds(bound, [&] {
      const auto found = FindWeaves({&draft->step}, LargeCosts(0.5));
      ASSERT_TRUE(found.ok()) << found.status();
    });
    std::cout << slices.size() << " slices: found in " << seconds << " s\n";
    EXPECT_LT(seconds, bound);
  }
}

// Units of sixteen leave nothing to shorten: every pass works on the whole step, and so does the
// proof of it.
TEST(ScaleTest, MergedOverSixteenTheyTakeThreeTimesAsLong) {
  Layout layout = Domino({1, 1}, 64, 96);
  layout.merge_wgrads = 16;
  ExpectPlannedWithin(3 * kBoundSeconds, SpecOf(layout), 64 * 96 * 2 * 26);
}

EngineSpec EightStages(const std::string& order, int tp_size, int micro_batches) {
  Layout layout = Domino({1, 1}, micro_batches, 96);
  layout.pp_size = 8;
  layout.tp_size = tp_size;
  layout = InOrder(layout, order);
  if (order == "interleaved_1f1b") layout.chunks = 4;
  return SpecOf(layout);
}

TEST(ScaleTest, AStageOfEightIsPlannedInTwoSecondsInEveryOrder) {
  for (const std::string& order : PipelineNames())
    ExpectPlannedWithin(kBoundSeconds, EightStages(order, 2, 64), 64 * 12 * 2 * 30);
}

// All 128 micro-batches are in flight, so the time must not grow with their square.
TEST(ScaleTest, AStageThatKeepsManyMicroBatchesIsPlannedInTime) {
  ExpectPlannedWithin(2 * kBoundSeconds, EightStages("gpipe", 2, 128), 128 * 12 * 2 * 30);
}

TEST(ScaleTest, EightStagesRehearseInASecond) {
  std::vector<Program> programs;
  for (Rank rank : IdRange<Rank>(8)) {
    const absl::StatusOr<RankPlan> plan = DraftPlan(EightStages("1f1b", 1, 64), rank);
    ASSERT_TRUE(plan.ok()) << plan.status();
    programs.push_back(plan->program);
  }
  const double seconds = ReferenceSeconds(kBoundSeconds / 2, [&] {
    std::vector<Skeleton> skeletons;
    for (const Program& program : programs) {
      const absl::StatusOr<Skeleton> skeleton = SkeletonOf(program);
      ASSERT_TRUE(skeleton.ok()) << skeleton.status();
      skeletons.push_back(*skeleton);
    }
    std::vector<const Skeleton*> all;
    for (const Skeleton& skeleton : skeletons) all.push_back(&skeleton);
    const absl::Status verdict = VerifySkeletons(all);
    EXPECT_TRUE(verdict.ok()) << verdict;
  });
  std::cout << "8 skeletons in " << seconds << " s\n";
  EXPECT_LT(seconds, kBoundSeconds / 2);
}

}  // namespace
}  // namespace stretto
