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

TEST(ScaleTest, NinetySixLayersOfSixtyFourMicroBatchesArePlannedAndVerifiedInTwoSeconds) {
  const EngineSpec spec = SpecOf(Domino({1, 1}, 64, 96));
  const std::clock_t start = std::clock();
  const absl::StatusOr<RankPlan> plan = BuildPlan(spec, 0);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->program.ops.size(), 64u * 96 * 2 * 30);
  std::cout << plan->program.ops.size() << " operations in " << seconds << " s\n";
  EXPECT_LT(seconds, kBoundSeconds);
}

}  // namespace
}  // namespace stretto
