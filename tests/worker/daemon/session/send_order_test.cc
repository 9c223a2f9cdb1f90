// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/send_order.h"

#include <gtest/gtest.h>

namespace stretto::daemon {
namespace {

using Turn = SendOrder::Turn;

constexpr absl::Duration kNow = absl::Seconds(100), kInterval = absl::Seconds(2);

TEST(SendOrderTest, NothingIsSentBeforeTheAnswerAndItHasTenSeconds) {
  SendOrder order(kNow);
  order.Wake();
  EXPECT_EQ(order.Next(kNow), Turn::kWait);
  EXPECT_EQ(order.WakeAt(), kNow + absl::Seconds(10));
  EXPECT_EQ(order.Next(kNow + absl::Seconds(9.9)), Turn::kWait);
  EXPECT_EQ(order.Next(kNow + absl::Seconds(10)), Turn::kGiveUp);
}

TEST(SendOrderTest, AHeartbeatComesFirstAndThenWhateverThereIs) {
  SendOrder order(kNow);
  order.Registered(kNow, kInterval);
  EXPECT_EQ(order.Next(kNow), Turn::kHeartbeat);
  order.SentHeartbeat(kNow);
  EXPECT_EQ(order.Next(kNow), Turn::kMessage);
  order.Asked();
  EXPECT_EQ(order.Next(kNow), Turn::kWait);
  EXPECT_EQ(order.WakeAt(), kNow + kInterval);
  order.Wake();
  EXPECT_EQ(order.Next(kNow), Turn::kMessage);
}

TEST(SendOrderTest, NoHeartbeatWaitsBehindAReplay) {
  SendOrder order(kNow);
  order.Registered(kNow, kInterval);
  int heartbeats = 0, messages = 0;
  for (absl::Duration now = kNow; now < kNow + absl::Seconds(20); now += absl::Seconds(0.5)) {
    if (order.Next(now) == Turn::kHeartbeat) {
      ++heartbeats;
      order.SentHeartbeat(now);
    }
    ASSERT_EQ(order.Next(now), Turn::kMessage);
    ++messages;
    order.Asked();
    order.Wake();  // there was one
  }
  EXPECT_EQ(heartbeats, 10);
  EXPECT_EQ(messages, 40);
}

// Positions of ranks are looked at with each heartbeat.
TEST(SendOrderTest, AfterAHeartbeatThereMayBeAMessage) {
  SendOrder order(kNow);
  order.Registered(kNow, kInterval);
  order.SentHeartbeat(kNow);
  order.Asked();
  ASSERT_EQ(order.Next(kNow), Turn::kWait);
  order.SentHeartbeat(kNow + kInterval);
  EXPECT_EQ(order.Next(kNow + kInterval), Turn::kMessage);
}

TEST(SendOrderTest, HeartbeatsOfAPauseAreNotMadeUpFor) {
  SendOrder order(kNow);
  order.Registered(kNow, kInterval);
  order.SentHeartbeat(kNow);
  order.Asked();
  const absl::Duration later = kNow + absl::Seconds(41);
  EXPECT_EQ(order.Next(later), Turn::kHeartbeat);
  order.SentHeartbeat(later);
  order.Asked();
  EXPECT_EQ(order.Next(later), Turn::kWait);
  EXPECT_EQ(order.WakeAt(), later + kInterval);
}

TEST(SendOrderTest, ASlowWriteDelaysNoLaterHeartbeat) {
  SendOrder order(kNow);
  order.Registered(kNow, kInterval);
  order.SentHeartbeat(kNow + absl::Seconds(0.5));
  EXPECT_EQ(order.WakeAt(), kNow + kInterval);
}

TEST(SendOrderTest, ACoordinatorThatNamesNoIntervalGetsOneASecond) {
  SendOrder order(kNow);
  order.Registered(kNow, absl::ZeroDuration());
  order.SentHeartbeat(kNow);
  EXPECT_EQ(order.WakeAt(), kNow + absl::Seconds(1));
}

}  // namespace
}  // namespace stretto::daemon
