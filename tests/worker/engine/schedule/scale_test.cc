// SPDX-License-Identifier: Apache-2.0

// Planning must stay close to linear: a large model with many micro-batches plans in the time that
// a few steps take.

#include <ctime>
#include <iostream>

#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

// Of this process's time on a core, so that others on the machine do not matter.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr double kBoundSeconds = 60;  // unoptimised, every access checked
#else
constexpr double kBoundSeconds = 2;
#endif

void ExpectPlannedWithin(double bound, const Layout& layout, size_t operations) {
  const std::clock_t start = std::clock();
  const absl::StatusOr<RankPlan> plan = BuildPlan(SpecOf(layout), 0);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->program.ops.size(), operations);
  std::cout << plan->program.ops.size() << " operations in " << seconds << " s\n";
  EXPECT_LT(seconds, bound);
}

TEST(ScaleTest, NinetySixLayersOfSixtyFourMicroBatchesArePlannedAndVerifiedInTwoSeconds) {
  ExpectPlannedWithin(kBoundSeconds, Domino({1, 1}, 64, 96), 64 * 96 * 2 * 30);
}

// Units of sixteen leave nothing to shorten: every pass works on the whole step, and so does the
// proof of it.
TEST(ScaleTest, MergedOverSixteenTheyTakeThreeTimesAsLong) {
  Layout layout = Domino({1, 1}, 64, 96);
  layout.merge_wgrads = 16;
  ExpectPlannedWithin(3 * kBoundSeconds, layout, 64 * 96 * 2 * 26);
}

}  // namespace
}  // namespace stretto
