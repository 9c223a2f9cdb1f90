// Planning must stay close to linear: a large model with many micro-batches plans in the time a
// step takes at most.

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

void PlanAndReport(int layers, int micro_batches) {
  Shape shape = Domino({1, 1}, micro_batches, layers);
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<RankPlan> plan = BuildPlan(SpecOf(shape), 0);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::cout << layers << " layers x " << micro_batches
            << " micro-batches: " << plan->program.ops.size()
            << " operations planned and verified in " << seconds.count() << " s\n";
}

TEST(ScaleTest, TwentyFourLayersOfEightMicroBatchesPlan) { PlanAndReport(24, 8); }

TEST(ScaleTest, NinetySixLayersOfSixtyFourMicroBatchesPlan) {
  if (std::getenv("STRETTO_SCALE") == nullptr) GTEST_SKIP() << "set STRETTO_SCALE=1";
  PlanAndReport(96, 64);
}

}  // namespace
}  // namespace stretto
