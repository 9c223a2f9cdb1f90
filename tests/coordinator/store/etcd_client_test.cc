// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/etcd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/coordinator/store/etcd_server.h"
#include "tests/coordinator/store/etcd_subject.h"

namespace stretto::coordinator {
namespace {

using ::testing::HasSubstr;

TEST(EtcdClientTest, AnEndpointThatDoesNotAnswerIsPassedOver) {
  if (!EtcdServer::Installed()) GTEST_SKIP() << EtcdServer::kSkipped;
  const auto client = EtcdClient::Connect({"127.0.0.1:1", SharedEtcd().endpoint()}, {});
  EXPECT_TRUE((*client)->Range({.key = "/x"}, kEtcdCall).ok());
}

TEST(EtcdClientTest, NoEtcdIsUnavailableNamingItsEndpoints) {
  const auto client = EtcdClient::Connect({"127.0.0.1:1", "127.0.0.1:2"}, {});
  const absl::Status status = (*client)->Range({.key = "/x"}, absl::Milliseconds(300)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("etcd at 127.0.0.1:1,127.0.0.1:2: no answer within 300ms ("));
}

// A minute passes with each look at its monotonic clock, and none on the machine's clocks.
class RacingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  absl::Duration Monotonic() const override { return absl::Minutes(looks_++); }

 private:
  mutable std::atomic<int> looks_ = 0;
};

TEST(EtcdClientTest, TheTimeOfACallPassesOnItsMonotonicClock) {
  const RacingClock clock;
  const auto client = EtcdClient::Connect({"127.0.0.1:1"}, {}, clock);
  const absl::Status status = (*client)->Range({.key = "/x"}, absl::Minutes(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer within 4m"));
}

TEST(EtcdClientTest, HalfACertificateIsRefused) {
  EXPECT_EQ(EtcdClient::Connect({"127.0.0.1:1"}, {.ca = "ca", .certificate = "c"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EtcdClient::Connect({"127.0.0.1:1"}, {.ca = "/none/ca"}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stretto::coordinator
