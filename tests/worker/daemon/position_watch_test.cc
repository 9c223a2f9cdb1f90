// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/position_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/files.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

// One trainer, whose flight record is `state_`, looked at every two seconds.
class PositionWatchTest : public ::testing::Test {
 protected:
  PositionWatchTest() {
    state_->step = 7;
    state_->phase = FlightPhase::kForward;
    state_->last_operation = 18;
    state_->last_update = absl::Seconds(99);
    state_->pulse = absl::Seconds(99);
    EXPECT_TRUE(WriteFileAtomic(RunFolder(dir_.path()).program(),
                                "17 compute gemm\n18 comm.tp all_reduce\n")
                    .ok());
  }

  std::optional<v1::RankPositions> Look(absl::Duration passed = absl::Seconds(2)) {
    now_ += passed;
    if (alive_ && state_.ok()) state_->pulse = now_;
    return watch_.Look({{{"uid", 1, 3}, RunFolder(dir_.path())}}, now_);
  }
  // The position after `looks` more looks.
  v1::RankPosition After(int looks) {
    std::optional<v1::RankPositions> found;
    for (int i = 0; i < looks; ++i) found = Look();
    EXPECT_TRUE(found.has_value() && found->ranks_size() == 1);
    return found.has_value() && found->ranks_size() == 1 ? found->ranks(0) : v1::RankPosition();
  }

  TempDir dir_;
  absl::StatusOr<FlightState> state_ = FlightState();
  bool alive_ = true;
  absl::Duration now_ = absl::Seconds(100);
  PositionWatch watch_{[this](const RunFolder&) { return state_; }};
};

TEST_F(PositionWatchTest, ATrainerThatMovesIsNotReported) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(Look().has_value());
    state_->last_update = now_;
  }
}

TEST_F(PositionWatchTest, AStillTrainerIsReportedWithItsPlaceUntilItMoves) {
  state_->channels = {{.group = "tp.0", .begun = 5, .waiting = true, .peer = 1, .receives = true}};
  EXPECT_FALSE(Look().has_value());
  EXPECT_FALSE(Look().has_value());  // for 2 s
  const v1::RankPosition position = After(1);
  EXPECT_EQ(position.job_uid(), "uid");
  EXPECT_EQ(position.epoch(), 1);
  EXPECT_EQ(position.rank(), 3);
  EXPECT_TRUE(position.attached());
  EXPECT_EQ(position.still_ms(), 4000);
  EXPECT_EQ(position.frozen_ms(), 0);
  EXPECT_EQ(position.step(), 7);
  EXPECT_EQ(position.phase(), "forward");
  EXPECT_EQ(position.operation(), "18 comm.tp all_reduce");
  EXPECT_EQ(position.activity(), v1::RankPosition::IDLE);
  ASSERT_EQ(position.channels_size(), 1);
  EXPECT_EQ(position.channels(0).group(), "tp.0");
  EXPECT_EQ(position.channels(0).begun(), 5);
  EXPECT_TRUE(position.channels(0).waiting());
  EXPECT_EQ(position.channels(0).peer(), 1);
  EXPECT_TRUE(position.channels(0).receives());
  state_->last_update = now_;
  state_->last_operation = 17;
  const std::optional<v1::RankPositions> moved = Look();
  ASSERT_TRUE(moved.has_value());  // the coordinator has to learn that it moved
  EXPECT_EQ(moved->ranks_size(), 0);
  EXPECT_FALSE(Look().has_value());
  EXPECT_EQ(After(1).operation(), "17 compute gemm");
}

TEST_F(PositionWatchTest, AStoppedProcessIsFrozen) {
  Look();
  alive_ = false;
  EXPECT_EQ(After(3).frozen_ms(), 6000);
  alive_ = true;
  EXPECT_EQ(After(1).frozen_ms(), 0);
}

TEST_F(PositionWatchTest, AProcessWithoutAPulseYetIsNotFrozen) {
  alive_ = false;
  state_->pulse = absl::ZeroDuration();
  EXPECT_EQ(After(4).frozen_ms(), 0);
}

TEST_F(PositionWatchTest, TimeInWhichTheDaemonStoodStillDoesNotCount) {
  Look();
  EXPECT_EQ(After(2).still_ms(), 4000);
  EXPECT_EQ(Look(absl::Seconds(40))->ranks(0).still_ms(), 4000);
  EXPECT_EQ(After(1).still_ms(), 6000);
}

TEST_F(PositionWatchTest, ATrainerWithoutAFlightRecordHasNotAttached) {
  state_ = absl::NotFoundError("none");
  Look();
  const v1::RankPosition position = After(2);
  EXPECT_FALSE(position.attached());
  EXPECT_EQ(position.still_ms(), 4000);
}

TEST_F(PositionWatchTest, ARecordThatCannotBeReadIsNotJudged) {
  Look();
  state_ = absl::DataLossError("another version");
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Look().has_value());
}

TEST_F(PositionWatchTest, TellsWhatAStillTrainerDoes) {
  Look();
  EXPECT_EQ(After(2).activity(), v1::RankPosition::IDLE);
  state_->cpu = absl::Seconds(5);
  EXPECT_EQ(After(1).activity(), v1::RankPosition::COMPUTING);  // 5 s of 6
  EXPECT_EQ(After(3).activity(), v1::RankPosition::IDLE);       // 5 s of 12
  state_->announced_until = now_ + absl::Seconds(3);
  EXPECT_EQ(After(1).activity(), v1::RankPosition::WORKING);
  EXPECT_EQ(After(1).activity(), v1::RankPosition::OVERDUE);
  // Who waits for others does not do it.
  state_->channels = {{.group = "control", .begun = 1, .waiting = true}};
  EXPECT_EQ(After(1).activity(), v1::RankPosition::IDLE);
}

// Its thread looks at the device all the time, and a library may do so too.
TEST_F(PositionWatchTest, ATrainerThatOnlyLooksAtItsDeviceDoesNotCompute) {
  state_->channels = {
      {.group = "tp.0", .begun = 5, .waiting = true, .on_device = true, .polls = true}};
  Look();
  state_->cpu = absl::Seconds(100);
  EXPECT_EQ(After(2).activity(), v1::RankPosition::IDLE);
  state_->announced_until = now_ + absl::Hours(1);
  EXPECT_EQ(After(1).activity(), v1::RankPosition::IDLE);
  // The device is in the call, and its thread elsewhere.
  state_->channels[0].polls = false;
  EXPECT_EQ(After(1).activity(), v1::RankPosition::WORKING);
  state_->announced_until = absl::ZeroDuration();
  EXPECT_EQ(After(1).activity(), v1::RankPosition::COMPUTING);
  state_->channels[0].polls = true;
  state_->channels[0].waiting = false;
  EXPECT_EQ(After(1).activity(), v1::RankPosition::IDLE);
  state_->announced_until = now_ + absl::Hours(1);
  EXPECT_EQ(After(1).activity(), v1::RankPosition::WORKING);
}

// On cores one lane may wait while another computes.
TEST_F(PositionWatchTest, ATrainerMayComputeWhileItsHostWaitsInACall) {
  state_->channels = {{.group = "tp.0", .begun = 5, .waiting = true, .peer = 1}};
  Look();
  state_->cpu = absl::Seconds(100);
  EXPECT_EQ(After(2).activity(), v1::RankPosition::COMPUTING);
}

}  // namespace
}  // namespace stretto::daemon
