// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/gloo/gate.h"

#include <sys/socket.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "tests/worker/comm/dial.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

absl::Duration In(absl::Duration time) { return Clock::Real().Monotonic() + time; }

Membership Rank(int rank, const std::string& secret, const std::string& group = "tp") {
  return {.group = group, .rank = rank, .size = 3, .secret = secret};
}

std::string Received(const FileDescriptor& fd, size_t bytes) {
  std::string out(bytes, '\0');
  const ssize_t n = recv(fd.get(), out.data(), out.size(), MSG_WAITALL);
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

void Sent(const FileDescriptor& fd, const std::string& bytes) {
  ASSERT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Whether the other side has closed it.
bool IsClosed(const FileDescriptor& fd) {
  char byte = 0;
  return recv(fd.get(), &byte, 1, 0) <= 0;
}

class GateTest : public ::testing::Test {
 protected:
  GateTest() : gate_(*Gate::Listen("127.0.0.1")) {}

  absl::StatusOr<FileDescriptor> Come(const Membership& self,
                                      absl::Duration within = absl::Seconds(30)) {
    return ConnectToGate(gate_->address(), self, 0, In(within));
  }
  // Until that many have been dropped; a test that fails does not return.
  void AwaitStrangers(int64_t count) {
    while (gate_->strangers() < count) std::this_thread::yield();
  }

  const std::string secret_ = NewSecret();
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, PeersGetInAndTheirBytesAreLeftToThem) {
  gate_->Open(Rank(0, secret_));
  for (const int rank : {2, 1}) {
    auto theirs = Come(Rank(rank, secret_));
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    Sent(*theirs, "first");
    auto ours = gate_->Await(rank, In(absl::Seconds(30)));
    ASSERT_TRUE(ours.ok()) << ours.status();
    EXPECT_EQ(Received(*ours, 5), "first");
    Sent(*ours, "second");
    EXPECT_EQ(Received(*theirs, 6), "second");
  }
  EXPECT_EQ(gate_->strangers(), 0);
}

TEST_F(GateTest, PeersMayComeBeforeItOpens) {
  auto coming = std::async(std::launch::async, [&] { return Come(Rank(1, secret_)); });
  gate_->Open(Rank(0, secret_));
  EXPECT_TRUE(coming.get().ok());
  EXPECT_TRUE(gate_->Await(1, In(absl::Seconds(30))).ok());
}

TEST_F(GateTest, AnotherSecretGroupOrRankIsKeptOut) {
  gate_->Open(Rank(0, secret_));
  const Membership strangers[] = {Rank(1, NewSecret()), Rank(1, secret_, "dp"), Rank(1, "")};
  for (const Membership& stranger : strangers) {
    const absl::Status status = Come(stranger).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not prove the secret"));
  }
  // Ranks that must not connect to it: they are dropped, and try again until their time is up.
  for (const int rank : {0, 3, -1}) {
    const absl::Status status = Come(Rank(rank, secret_), absl::Milliseconds(200)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
  AwaitStrangers(6);
  EXPECT_FALSE(gate_->Await(1, In(absl::ZeroDuration())).ok());
}

// What a peer has sent to another gate is of no use.
TEST_F(GateTest, ARecordedProofDoesNotOpenIt) {
  gate_->Open(Rank(0, secret_));
  // Between a peer and the gate: notes what the peer says.
  std::string hello, proof;
  {
    const FileDescriptor listener = FileDescriptor(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    socklen_t bytes = sizeof any;
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &bytes);
    const std::string address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    auto coming = std::async(std::launch::async, [&] {
      return ConnectToGate(address, Rank(1, secret_), 0, In(absl::Seconds(30)));
    });
    const FileDescriptor peer(accept(listener.get(), nullptr, nullptr));
    const FileDescriptor there = ConnectTo(gate_->address());
    Sent(there, hello = Received(peer, 48));
    Sent(peer, Received(there, 64));
    Sent(there, proof = Received(peer, 32));
    Sent(peer, Received(there, 1));
    EXPECT_TRUE(coming.get().ok());  // as long as it only listens, it is a wire
  }
  const FileDescriptor again = ConnectTo(gate_->address());
  Sent(again, hello);
  EXPECT_EQ(Received(again, 64).size(), 64u);
  Sent(again, proof);
  EXPECT_TRUE(IsClosed(again));
  AwaitStrangers(1);
}

// Whoever answers at the address of a rank that has gone.
TEST_F(GateTest, APeerDoesNotTrustWhoeverAnswers) {
  gate_->Open(Rank(0, NewSecret()));
  const absl::Status status = Come(Rank(1, secret_)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(gate_->address() + " did not prove the secret of the group"));
}

TEST_F(GateTest, GarbageIsDroppedAndCounted) {
  gate_->Open(Rank(0, secret_));
  const FileDescriptor http = ConnectTo(gate_->address());
  Sent(http, "GET / HTTP/1.1\r\nHost: rank\r\nUser-Agent: a scanner of ports\r\n\r\n");
  EXPECT_TRUE(IsClosed(http));
  { const FileDescriptor gone = ConnectTo(gate_->address()); }
  AwaitStrangers(2);
  EXPECT_TRUE(Come(Rank(1, secret_)).ok());
}

TEST_F(GateTest, ASilentVisitorIsDroppedInTime) {
  gate_->Open(Rank(0, secret_));
  const absl::Duration before = Clock::Real().Monotonic();
  const FileDescriptor silent = ConnectTo(gate_->address());
  EXPECT_TRUE(Come(Rank(1, secret_)).ok());  // nobody waits for it
  EXPECT_TRUE(IsClosed(silent));
  const absl::Duration took = Clock::Real().Monotonic() - before;
  EXPECT_GE(took, absl::Seconds(limits::kMeetingHandshake.value));
  EXPECT_EQ(gate_->strangers(), 1);
}

TEST_F(GateTest, AFloodOfVisitorsKeepsNoPeerOut) {
  gate_->Open(Rank(0, secret_));
  std::vector<FileDescriptor> flood;
  for (int64_t i = 0; i < 3 * limits::kMeetingVisitors.value; ++i) {
    flood.push_back(ConnectTo(gate_->address()));
  }
  EXPECT_TRUE(Come(Rank(1, secret_)).ok());
  EXPECT_TRUE(gate_->Await(1, In(absl::Seconds(30))).ok());
  EXPECT_GE(gate_->strangers(), 2 * limits::kMeetingVisitors.value);
}

TEST_F(GateTest, NobodyListensAfterTheMeeting) {
  gate_->Open(Rank(0, secret_));
  const std::string address = gate_->address();
  gate_.reset();
  const absl::Status status =
      ConnectToGate(address, Rank(1, secret_), 0, In(absl::Seconds(30))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
}

TEST_F(GateTest, AnAddressThatIsNoneIsNamed) {
  const absl::Status status =
      ConnectToGate("node-a", Rank(1, secret_), 0, In(absl::Seconds(1))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node-a"));
  EXPECT_EQ(ConnectToGate("host:1", Rank(1, secret_), 0, In(absl::Seconds(1))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto::testing
