// SPDX-License-Identifier: Apache-2.0
#include "coordinator/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLease = absl::Seconds(10);

// The wall clock shows 100 s at the origin of the steady clock.
Moment At(absl::Duration steady) {
  return {.wall = absl::FromUnixSeconds(100) + steady, .steady = steady};
}
const Moment kStart = At(absl::ZeroDuration());

// As the core does at a tick.
std::vector<std::string> Expire(Membership& membership, absl::Duration steady) {
  const std::vector<std::string> overdue = membership.Overdue(steady);
  for (const std::string& id : overdue) membership.Lose(id);
  return overdue;
}

WorkerRecord RecordOf(const std::string& id, const std::string& incarnation = "i1") {
  WorkerRecord record;
  record.id = id;
  record.incarnation = incarnation;
  record.host = "host-of-" + incarnation;
  record.devices = {{.slot = 0, .kind = 1, .description = "", .memory_bytes = 0}};
  return record;
}

TEST(LeaseTest, EndsWithoutHeartbeatAndNotBefore) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a"), 1, kStart).ok());
  EXPECT_THAT(Expire(membership, kLease - absl::Nanoseconds(1)), IsEmpty());
  EXPECT_TRUE(membership.Find("a")->ready());
  EXPECT_THAT(Expire(membership, kLease), ElementsAre("a"));
  EXPECT_FALSE(membership.Find("a")->ready());
  EXPECT_THAT(Expire(membership, 2 * kLease), IsEmpty());
}

TEST(LeaseTest, HeartbeatRenews) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a"), 1, kStart).ok());
  ASSERT_TRUE(membership.Heartbeat("a", 1, At(absl::Seconds(9))).ok());
  EXPECT_THAT(Expire(membership, absl::Seconds(18)), IsEmpty());
  EXPECT_EQ(membership.Find("a")->last_heartbeat_time, At(absl::Seconds(9)).wall);
  EXPECT_THAT(Expire(membership, absl::Seconds(19)), ElementsAre("a"));
}

TEST(LeaseTest, HeartbeatFromOldSessionIsAbortedAndDoesNotRenew) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a"), 1, kStart).ok());
  ASSERT_EQ(*membership.Register(RecordOf("a"), 2, kStart), 1);
  const absl::Status status = membership.Heartbeat("a", 1, At(absl::Seconds(9)));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "worker \"a\": session 1 is not the newest, 2; register again");
  EXPECT_THAT(Expire(membership, kLease), ElementsAre("a"));
}

TEST(LeaseTest, HeartbeatOfLostWorkerIsAborted) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a"), 1, kStart).ok());
  Expire(membership, kLease);
  const absl::Status status = membership.Heartbeat("a", 1, At(kLease));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "worker \"a\" is LOST; register again");
}

TEST(LeaseTest, HeartbeatOfUnknownWorkerIsNotFound) {
  Membership membership(kLease);
  const absl::Status status = membership.Heartbeat("a", 1, kStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "worker \"a\" is not registered");
}

TEST(RegisterTest, SecondLiveWorkerWithTheNameIsRefusedNamingTheFirst) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a", "i1"), 1, kStart).ok());
  const absl::Status status = membership.Register(RecordOf("a", "i2"), 2, kStart).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(
      status.message(),
      "worker \"a\" is already connected from host \"host-of-i1\" (incarnation i1); refused a "
      "second one from host \"host-of-i2\" (incarnation i2)");
  EXPECT_EQ(membership.Find("a")->session, 1);
}

TEST(RegisterTest, AnotherIncarnationMayHaveTheNameOfALostWorker) {
  Membership membership(kLease);
  ASSERT_TRUE(membership.Register(RecordOf("a", "i1"), 1, kStart).ok());
  membership.Lose("a");
  EXPECT_EQ(*membership.Register(RecordOf("a", "i2"), 2, kStart), 0);
  EXPECT_EQ(membership.Find("a")->record.incarnation, "i2");
}

TEST(RegisterTest, BadNamesAndDevicesAreRefused) {
  Membership membership(kLease);
  const auto message = [&](const WorkerRecord& record) {
    const absl::Status status = membership.Register(record, 1, kStart).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(RecordOf("Node_A")), HasSubstr("worker id \"Node_A\" is not a name"));
  WorkerRecord none = RecordOf("a");
  none.devices.clear();
  EXPECT_EQ(message(none), "worker \"a\" has no devices; expected at least 1");
  WorkerRecord twice = RecordOf("a");
  twice.devices.push_back(twice.devices[0]);
  EXPECT_EQ(message(twice), "worker \"a\" has two devices at slot 0");
  WorkerRecord negative = RecordOf("a");
  negative.devices[0].slot = -1;
  EXPECT_EQ(message(negative), "worker \"a\" has a device at slot -1; expected 0 or more");
  EXPECT_EQ(membership.Find("a"), nullptr);
}

TEST(RestoreTest, StoredWorkersAreLostAndHaveALeaseToComeBack) {
  Membership membership(kLease);
  WorkerRecord record = RecordOf("a");
  record.state = WorkerState::kReady;
  membership.Restore(record);
  EXPECT_FALSE(membership.Find("a")->ready());
  EXPECT_EQ(membership.Find("a")->lease_end, kLease);
  EXPECT_EQ(*membership.Register(RecordOf("a", "i2"), 1, kStart), 0);
}

}  // namespace
}  // namespace stretto::coordinator
