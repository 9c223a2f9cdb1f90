// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/reconnect.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stretto::daemon {
namespace {

const absl::Status kAway = absl::UnavailableError("connection refused");
const absl::Status kDenied = absl::PermissionDeniedError("another cluster");

TEST(ReconnectPauseTest, DoublesUpToFiveSecondsWithTwentyPercentJitter) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    absl::Duration middle = absl::Milliseconds(200);
    for (int attempt = 0; attempt < 40; ++attempt) {
      const absl::Duration pause = ReconnectPause(seed, attempt);
      EXPECT_GE(pause, middle * 0.8);
      EXPECT_LE(pause, middle * 1.2);
      middle = std::min(middle * 2, absl::Seconds(5));
    }
  }
}

TEST(ReconnectPauseTest, WorkersDoNotComeBackTogether) {
  EXPECT_NE(ReconnectPause(1, 3), ReconnectPause(2, 3));
  EXPECT_EQ(ReconnectPause(1, 3), ReconnectPause(1, 3));
}

TEST(ReconnectTest, PausesGrowUntilItIsRegistered) {
  Reconnect reconnect(7, 1);
  for (int attempt = 0; attempt < 5; ++attempt) {
    EXPECT_EQ(reconnect.Ended(kAway, false).pause, ReconnectPause(7, attempt));
  }
  EXPECT_EQ(reconnect.Ended(kAway, true).pause, ReconnectPause(7, 0));
  EXPECT_EQ(reconnect.Ended(kAway, false).pause, ReconnectPause(7, 1));
}

TEST(ReconnectTest, EveryAddressIsTriedOnceBeforeAPauseOfAtMostASecond) {
  Reconnect reconnect(7, 3);
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(reconnect.Ended(kAway, false).pause, absl::ZeroDuration());
    EXPECT_EQ(reconnect.Ended(kAway, false).pause, absl::ZeroDuration());
    EXPECT_EQ(reconnect.Ended(kAway, false).pause,
              std::min(ReconnectPause(7, round), absl::Seconds(1)));
  }
}

TEST(ReconnectTest, AnOutageIsToldOncePerKindOfFailure) {
  Reconnect reconnect(7, 1);
  EXPECT_TRUE(reconnect.Ended(kAway, false).tell);
  EXPECT_FALSE(reconnect.Ended(kAway, false).tell);
  EXPECT_TRUE(reconnect.Ended(absl::InternalError("odd"), false).tell);
  EXPECT_FALSE(reconnect.Ended(absl::InternalError("odd"), false).tell);
  EXPECT_TRUE(reconnect.Ended(kAway, true).tell);
}

TEST(ReconnectTest, WhatNeverChangesIsARefusal) {
  for (const absl::Status& status :
       {absl::FailedPreconditionError("version"), absl::InvalidArgumentError("name"),
        absl::AlreadyExistsError("taken")}) {
    Reconnect reconnect(7, 1);
    EXPECT_FALSE(reconnect.Ended(kAway, true).refused);
    EXPECT_TRUE(reconnect.Ended(status, false).refused) << status;
  }
}

// The coordinator had accepted the daemon, whose ranks train.
TEST(ReconnectTest, NothingThatEndsARegisteredSessionIsARefusal) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "ended");
    Reconnect first(7, 1);
    EXPECT_FALSE(first.Ended(status, true).refused) << status;
    Reconnect later(7, 1);
    EXPECT_FALSE(later.Ended(kAway, true).refused);
    EXPECT_FALSE(later.Ended(status, true).refused) << status;
  }
}

// Ranks train meanwhile, and a certificate may be replaced.
TEST(ReconnectTest, ADenialIsARefusalOnlyBeforeTheFirstRegistration) {
  for (const absl::Status& status : {kDenied, absl::UnauthenticatedError("certificate")}) {
    EXPECT_TRUE(Reconnect(7, 1).Ended(status, false).refused) << status;
    Reconnect later(7, 1);
    EXPECT_FALSE(later.Ended(kAway, true).refused);
    EXPECT_FALSE(later.Ended(status, false).refused) << status;
    EXPECT_TRUE(later.Ended(status, false).renew) << status;
    EXPECT_FALSE(later.Ended(kAway, false).renew);
    // A session that was registered may end so as well.
    EXPECT_FALSE(Reconnect(7, 1).Ended(status, true).refused) << status;
  }
}

}  // namespace
}  // namespace stretto::daemon
