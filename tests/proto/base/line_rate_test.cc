// SPDX-License-Identifier: Apache-2.0
#include "proto/base/line_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr absl::Duration kNow = absl::Seconds(1000);

TEST(LineRateTest, TheFirstOfEachSecondIsWrittenAndCountsTheOthers) {
  LineRate rate;
  EXPECT_EQ(rate.Admit(kNow), 0);
  EXPECT_EQ(rate.Admit(kNow), std::nullopt);
  EXPECT_EQ(rate.Admit(kNow + absl::Milliseconds(999)), std::nullopt);
  EXPECT_EQ(rate.Admit(kNow + absl::Seconds(1)), 2);
  EXPECT_EQ(rate.Admit(kNow + absl::Seconds(1)), std::nullopt);
  EXPECT_EQ(rate.Admit(kNow + absl::Hours(1)), 1);
}

TEST(LineRateTest, ABurstHasRoomAndThenOneLineEachSecond) {
  LineRate rate(3, absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rate.Admit(kNow), 0);
  EXPECT_EQ(rate.Admit(kNow), std::nullopt);
  int written = 0;
  for (int i = 1; i <= 100; ++i)
    written += rate.Admit(kNow + i * absl::Milliseconds(100)).has_value();
  EXPECT_EQ(written, 10);
  // A pause makes room for a burst, and no more.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rate.Admit(kNow + absl::Hours(1)).has_value());
  EXPECT_EQ(rate.Admit(kNow + absl::Hours(1)), std::nullopt);
}

TEST(LineRateTest, WhatWasLeftOutIsTakenOnce) {
  LineRate rate;
  EXPECT_TRUE(rate.Idle(kNow));
  EXPECT_EQ(rate.TakeLeftOut(kNow), 0);
  rate.Admit(kNow);
  rate.Admit(kNow);
  EXPECT_EQ(rate.TakeLeftOut(kNow), 0) << "there is no room for the line";
  EXPECT_EQ(rate.TakeLeftOut(kNow + absl::Seconds(1)), 1);
  EXPECT_FALSE(rate.Idle(kNow + absl::Seconds(1)));
  EXPECT_EQ(rate.TakeLeftOut(kNow + absl::Seconds(2)), 0);
  EXPECT_TRUE(rate.Idle(kNow + absl::Seconds(2)));
}

TEST(LineRateTest, TheNoteIsEmptyForNothing) {
  EXPECT_EQ(LeftOutNote(0), "");
  EXPECT_EQ(LeftOutNote(1), " (1 more was left out)");
  EXPECT_EQ(LeftOutNote(20), " (20 more were left out)");
}

TEST(LineRatesTest, NobodyTakesTheRoomOfAnother) {
  LineRates rates(2, absl::Seconds(1));
  for (int i = 0; i < 10; ++i) rates.Admit("bob", kNow);
  EXPECT_EQ(rates.Admit("ann", kNow), 0);
  EXPECT_THAT(rates.TakeLeftOut(kNow), IsEmpty());
  EXPECT_THAT(rates.TakeLeftOut(kNow + absl::Seconds(1)), ElementsAre(Pair("bob", 8)));
}

TEST(LineRatesTest, TheirNumberIsBoundedAndThoseWithNothingToTellAreForgotten) {
  LineRates rates(1, absl::Seconds(1));
  for (size_t i = 0; i < LineRates::kMaxNames; ++i) {
    EXPECT_TRUE(rates.Admit(absl::StrCat(i), kNow).has_value());
  }
  EXPECT_TRUE(rates.Admit("one more", kNow).has_value());
  EXPECT_FALSE(rates.Admit("and another", kNow).has_value()) << "they share a rate";
  EXPECT_THAT(rates.TakeLeftOut(kNow + absl::Seconds(1)), ElementsAre(Pair("", 1)));
  EXPECT_TRUE(rates.Admit("one more", kNow + absl::Seconds(1)).has_value());
  EXPECT_TRUE(rates.Admit("and another", kNow + absl::Seconds(1)).has_value());
}

}  // namespace
}  // namespace stretto
