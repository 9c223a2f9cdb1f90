// SPDX-License-Identifier: Apache-2.0

// The orders of the literature, and ours, against what an independent model said of them.

#include "worker/bench/reference.h"

#include "gtest/gtest.h"

namespace stretto {
namespace {

class ReferenceTest : public ::testing::TestWithParam<ReferenceRow> {};

TEST_P(ReferenceTest, SpeedUpAndExposedShareAreThoseOfTheModel) {
  for (size_t i = 0; i < std::size(kReferenceShares); ++i) {
    const absl::StatusOr<ReferenceResult> result =
        SimulateReference(GetParam(), kReferenceShares[i]);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(result->speed_up, GetParam().speed_ups[i], 0.01) << kReferenceShares[i];
    EXPECT_NEAR(result->exposed, GetParam().exposed[i], 0.01) << kReferenceShares[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, ReferenceTest, ::testing::ValuesIn(ReferenceRows()),
                         [](const auto& row) { return std::string(row.param.schedule); });

}  // namespace
}  // namespace stretto
