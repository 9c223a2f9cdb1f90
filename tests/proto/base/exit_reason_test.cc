// SPDX-License-Identifier: Apache-2.0
#include "proto/base/exit_reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace stretto {
namespace {

constexpr auto kLast = ExitReason::kHang;

TEST(ExitReasonTest, EveryNameLeadsBackToItsReason) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(kLast); ++i) {
    const auto reason = static_cast<ExitReason>(i);
    EXPECT_EQ(ExitReasonOf(NameOf(reason)), reason) << NameOf(reason);
    EXPECT_TRUE(names.insert(NameOf(reason)).second) << NameOf(reason) << " names two reasons";
  }
}

TEST(ExitReasonTest, ANameOfANewerBuildIsUnknownAndNoSuccess) {
  EXPECT_EQ(ExitReasonOf("CompletedTwice"), ExitReason::kUnknown);
  EXPECT_EQ(ExitReasonOf(""), ExitReason::kUnknown);
  EXPECT_FALSE(Succeeds(ExitReason::kUnknown));
}

TEST(ExitReasonTest, ARankSucceedsThatCompletedOrStoppedEarly) {
  int succeed = 0;
  for (int i = 0; i <= static_cast<int>(kLast); ++i)
    succeed += Succeeds(static_cast<ExitReason>(i)) ? 1 : 0;
  EXPECT_EQ(succeed, 2);
  EXPECT_TRUE(Succeeds(ExitReason::kCompleted));
  EXPECT_TRUE(Succeeds(ExitReason::kEarlyStopped));
}

}  // namespace
}  // namespace stretto
