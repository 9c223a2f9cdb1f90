// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/device_wait.h"

#include "gmock/gmock.h"
#include "tests/worker/comm/device/device_groups.h"

namespace stretto::testing {
namespace {

// Says what it is told, and counts.
class ScriptedCommunicator final : public DeviceCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status Run(const Collective&, void*) override { return absl::OkStatus(); }
  absl::Status Poll() override {
    ++polls;
    return aborted ? absl::AbortedError("aborted") : state;
  }
  void Abort() override { aborted = true; }

  absl::Status state;
  int polls = 0;
  bool aborted = false;
};

class DeviceWaitTest : public ::testing::Test {
 protected:
  absl::Status Await(const DeviceDone& done) {
    return AwaitDevice(
        both_, done,
        {.timeout = absl::Seconds(60), .grace = absl::Seconds(5), .polling = waiting_.polling()});
  }
  absl::Duration Waited() { return waiting_.clock.Monotonic() - start_; }

  ScriptedCommunicator tp_, dp_;
  DeviceCommunicator* const both_[2] = {&tp_, &dp_};
  WaitingClock waiting_;
  const absl::Duration start_ = waiting_.clock.Monotonic();
};

TEST_F(DeviceWaitTest, ReturnsOnceDone) {
  int asked = 0;

  const absl::Status status = Await([&] { return ++asked == 4; });

  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Waited(), absl::Seconds(3));
  EXPECT_FALSE(tp_.aborted || dp_.aborted);
  EXPECT_EQ(dp_.polls, 4);
}

TEST_F(DeviceWaitTest, ErrorOfOneCommunicatorAbortsAllAndIsReturned) {
  dp_.state = absl::UnavailableError("lost a peer");

  const absl::Status status = Await([&] { return tp_.aborted && dp_.aborted; });

  EXPECT_EQ(status, absl::UnavailableError("lost a peer"));
  EXPECT_TRUE(tp_.aborted && dp_.aborted);
}

TEST_F(DeviceWaitTest, WorkCutShortByAnErrorDoesNotCountAsDone) {
  dp_.state = absl::UnavailableError("lost a peer");

  EXPECT_EQ(Await([] { return true; }), absl::UnavailableError("lost a peer"));
}

TEST_F(DeviceWaitTest, DeadlineAbortsAndWaitsForTheStreamsToComeToRest) {
  int asked_after = 0;

  const absl::Status status = Await([&] { return tp_.aborted && ++asked_after == 3; });

  EXPECT_EQ(status, absl::DeadlineExceededError("the device did not finish within 1m"));
  EXPECT_TRUE(dp_.aborted);
  EXPECT_EQ(Waited(), absl::Seconds(62));
}

TEST_F(DeviceWaitTest, StreamsThatNeverComeToRestAreReportedAfterTheGrace) {
  const absl::Status status = Await([] { return false; });

  EXPECT_EQ(status, absl::DeadlineExceededError("the device did not finish within 1m; the streams "
                                                "did not come to rest within 5s after that"));
  EXPECT_EQ(Waited(), absl::Seconds(65));
}

TEST_F(DeviceWaitTest, ErrorOfTheDeviceIsReturnedAtOnce) {
  const absl::Status status =
      Await([]() -> absl::StatusOr<bool> { return absl::InternalError("illegal address"); });

  EXPECT_EQ(status, absl::InternalError("illegal address"));
  EXPECT_TRUE(tp_.aborted);
  EXPECT_EQ(Waited(), absl::ZeroDuration());
}

}  // namespace
}  // namespace stretto::testing
