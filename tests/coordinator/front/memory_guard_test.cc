// SPDX-License-Identifier: Apache-2.0
#include "coordinator/front/memory_guard.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/files.h"

namespace stretto::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMi = int64_t{1} << 20;
constexpr int64_t kBound = 512 * kMi, kMuch = kBound / 4 * 3, kStep = 8 * kMi;

// Memory and connections are what the test says.
class FakeSurroundings final : public Surroundings {
 public:
  int64_t Resident() override { return resident; }
  int64_t Allocated() override { return resident - freed; }
  absl::Duration CpuTime() override { return cpu_time; }
  Traffic Of(const Connection& connection) override {
    ++asked;
    return {.received = received[connection.fd], .waiting = waiting[connection.fd]};
  }
  void Close(const Connection& connection) override { closed.push_back(connection.fd); }

  int64_t resident = 25 * kMi, freed = 0;
  absl::Duration cpu_time;
  std::map<int, int64_t> received, waiting;
  int asked = 0;
  std::vector<int> closed;
};

class MemoryGuardTest : public ::testing::Test {
 protected:
  // A look, an interval after the last.
  void Look() {
    now_ += MemoryGuard::kInterval;
    guard_.Look(now_, open_);
  }
  // So many looks, between which memory grows and each connection sends.
  void Pass(int looks, int64_t growth, const std::map<int, int64_t>& sends) {
    for (int i = 0; i < looks; ++i) {
      world_.resident += growth;
      for (const auto& [fd, bytes] : sends) world_.received[fd] += bytes;
      Look();
    }
  }
  // So many looks, between which the process uses a share of a core.
  void Work(int looks, double share) {
    for (int i = 0; i < looks; ++i) {
      world_.cpu_time += share * MemoryGuard::kInterval;
      Look();
    }
  }
  static int Looks(absl::Duration time) { return static_cast<int>(time / MemoryGuard::kInterval); }

  FakeSurroundings world_;
  MemoryGuard guard_{kBound, world_};
  absl::Duration now_ = absl::Hours(1);
  std::vector<Connection> open_ = {{.fd = 1, .socket = 101, .machine = "10.0.0.1"},
                                   {.fd = 2, .socket = 102, .machine = "10.0.0.2"},
                                   {.fd = 3, .socket = 103, .machine = "10.0.0.3"}};
};

TEST_F(MemoryGuardTest, WhoeverSendsMostIsClosedWhileMemoryGrows) {
  world_.received[1] = 1000 * kMi;  // a worker of many days
  world_.resident = kMuch;
  Pass(1, 1, {});
  EXPECT_THAT(world_.closed, IsEmpty());
  Pass(5, 2 * kMi, {{1, 10 << 10}, {2, 200 << 10}, {3, 100}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  EXPECT_EQ(guard_.closed(), 1);
}

TEST_F(MemoryGuardTest, NobodyIsClosedAndNobodyAskedBelowThreeQuartersOfTheBound) {
  Pass(35, 10 * kMi, {{2, kMi}});
  EXPECT_LT(world_.resident, kMuch);
  EXPECT_THAT(world_.closed, IsEmpty());
  EXPECT_EQ(world_.asked, 0);
}

// A coordinator of a large cluster may need more than the bound.
TEST_F(MemoryGuardTest, NobodyIsClosedWhileMemoryDoesNotGrow) {
  world_.resident = 2 * kBound;
  Pass(1000, 0, {{2, kMi}});
  EXPECT_THAT(world_.closed, IsEmpty());
  Pass(1, kStep, {{2, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  Pass(1000, 0, {{2, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
}

TEST_F(MemoryGuardTest, OneAtATimeAndThenAPause) {
  world_.resident = kMuch + 1;
  Look();
  Pass(1, 2 * kStep, {{1, kMi}, {2, 2 * kMi}, {3, 100}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  Pass(Looks(MemoryGuard::kPause) - 1, 2 * kStep, {{1, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  Pass(1, 2 * kStep, {{1, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2, 1));
  // The third has sent little, so memory grows for another reason.
  Pass(100, kStep, {{3, 100}});
  EXPECT_THAT(world_.closed, ElementsAre(2, 1));
}

TEST_F(MemoryGuardTest, WhatAnAttackLeftIsNotHeldAgainstOthers) {
  world_.resident = kMuch + 1;
  Look();
  Pass(1, 2 * kStep, {{2, 2 * kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  // It is freed, and grows again, in the time of a healthy worker that sends.
  Pass(4, -kStep, {{1, 1 << 10}});
  Pass(1, kStep / 2, {{1, 1 << 10}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
}

// What has been freed stays with the process until it is given back. An attacker who comes again
// fills it first, and the memory of the process does not grow.
TEST_F(MemoryGuardTest, GrowthIsThatOfWhatIsInUse) {
  world_.resident = kBound;
  world_.freed = 100 * kMi;
  Look();
  for (int i = 0; i < 2; ++i) {
    world_.freed -= kStep / 2;
    Pass(1, 0, {{2, kMi}});
  }
  EXPECT_THAT(world_.closed, ElementsAre(2));
}

TEST_F(MemoryGuardTest, WhoeverComesAgainIsClosedAsSoonAsMemoryGrows) {
  world_.resident = kMuch + 1;
  Look();
  Pass(1, kStep, {{2, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2));
  world_.resident = 25 * kMi;
  open_[1] = {.fd = 4, .socket = 104, .machine = "10.0.0.2"};
  Pass(Looks(MemoryGuard::kPause), 0, {});
  Pass(1, kStep, {{3, 2 * kMi}, {4, kMi}});  // 3 was there before the attack
  EXPECT_THAT(world_.closed, ElementsAre(2, 4));
  world_.resident = 25 * kMi;
  Pass(Looks(MemoryGuard::kAlert) + 1, 0, {});
  Pass(1, kStep, {{4, kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(2, 4));
}

// gRPC may free a flood as fast as it comes.
TEST_F(MemoryGuardTest, WhoeverSendsFasterThanItIsReadIsClosedWhateverMemoryThereIs) {
  Work(1, 0);
  world_.waiting = {{1, MemoryGuard::kFloodBytes}, {2, MemoryGuard::kFloodBytes + 1}};
  Work(Looks(MemoryGuard::kFlood), 0.6);
  EXPECT_THAT(world_.closed, IsEmpty());
  Work(1, 0.6);
  EXPECT_THAT(world_.closed, ElementsAre(2));
  EXPECT_EQ(guard_.closed(), 1);
}

// A daemon that was stopped for a while has much to read.
TEST_F(MemoryGuardTest, WhoeverWasReadOnceMeanwhileIsNotClosed) {
  Work(1, 0);
  for (int i = 0; i < 10; ++i) {
    world_.waiting[2] = kMi;
    Work(Looks(MemoryGuard::kFlood), 1);
    world_.waiting[2] = 0;
    Work(1, 1);
  }
  EXPECT_THAT(world_.closed, IsEmpty());
}

TEST_F(MemoryGuardTest, NobodyIsAskedWhileTheProcessIsIdle) {
  Work(1, 0);
  world_.waiting[2] = kMi;
  Work(100, 0.9 * MemoryGuard::kBusyShare);
  EXPECT_EQ(world_.asked, 0);
  Work(1, 1.1 * MemoryGuard::kBusyShare);
  EXPECT_EQ(world_.asked, 3);
  world_.waiting[2] = 0;
  Work(Looks(MemoryGuard::kBusy) + 1, 0);
  const int asked = world_.asked;
  Work(100, 0);
  EXPECT_EQ(world_.asked, asked);
}

TEST_F(MemoryGuardTest, WhoeverFloodsAgainIsClosedSooner) {
  Work(1, 0);
  world_.waiting[2] = kMi;
  Work(Looks(MemoryGuard::kFlood) + 1, 1);
  EXPECT_THAT(world_.closed, ElementsAre(2));
  open_[1] = {.fd = 4, .socket = 104, .machine = "10.0.0.2"};
  world_.waiting = {{1, kMi}, {4, kMi}};
  Work(Looks(MemoryGuard::kFloodAgain), 1);
  EXPECT_THAT(world_.closed, ElementsAre(2));
  Work(1, 1);
  EXPECT_THAT(world_.closed, ElementsAre(2, 4));  // 1 was there before
}

TEST_F(MemoryGuardTest, ManyConnectionsAreAskedLessOften) {
  world_.resident = kMuch + 1;
  for (int fd = 4; fd <= 1000; ++fd)
    open_.push_back({.fd = fd, .socket = 100 + static_cast<uint64_t>(fd), .machine = "10.0.0.4"});
  Look();
  EXPECT_EQ(world_.asked, 1000);
  Pass(Looks(1000 * MemoryGuard::kPerConnection) - 1, 0, {});
  EXPECT_EQ(world_.asked, 1000);
  Look();
  EXPECT_EQ(world_.asked, 2000);
}

TEST_F(MemoryGuardTest, ConnectionsThatComeLaterCountFromTheirBegin) {
  world_.resident = kMuch + 1;
  Look();
  open_.push_back({.fd = 4, .socket = 104, .machine = "10.0.0.4"});
  Pass(1, kStep, {{1, 100 << 10}, {4, 5 * kMi}});
  EXPECT_THAT(world_.closed, ElementsAre(4));
}

TEST_F(MemoryGuardTest, BetweenTwoIntervalsNothingIsDone) {
  world_.resident = kMuch + 1;
  Look();
  EXPECT_EQ(world_.asked, 3);
  guard_.Look(now_ + MemoryGuard::kInterval / 2, open_);
  EXPECT_EQ(world_.asked, 3);
}

// ---- on real descriptors

struct Pair {
  FileDescriptor client, server;
};
Pair Connect() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), raw, bytes), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), raw, &bytes), 0);
  Pair pair{.client = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .server = {}};
  EXPECT_EQ(connect(pair.client.get(), raw, bytes), 0);
  pair.server = FileDescriptor(accept(listener.get(), nullptr, nullptr));
  return pair;
}
Connection Known(const FileDescriptor& fd) {
  return {.fd = fd.get(), .socket = SocketBehind(fd.get())};
}

TEST(SurroundingsTest, SeeWhatHasArrivedAndCloseWhatTheyAreTold) {
  Surroundings& real = Surroundings::Real();
  EXPECT_GT(real.Resident(), kMi);
  const int64_t before = real.Allocated();
  const std::vector<char> more(50 * kMi);
  EXPECT_GE(real.Allocated(), before + 50 * kMi);
  const Pair pair = Connect();
  const Connection connection = Known(pair.server);
  const std::string sent(1000, 'x');
  ASSERT_EQ(send(pair.client.get(), sent.data(), sent.size(), 0), 1000);
  char byte = 0;
  ASSERT_EQ(recv(pair.server.get(), &byte, 1, MSG_PEEK), 1);
  EXPECT_EQ(real.Of(connection).received, 1000);
  EXPECT_EQ(real.Of(connection).waiting, 1000);
  ASSERT_EQ(recv(pair.server.get(), &byte, 1, 0), 1);
  EXPECT_EQ(real.Of(connection).waiting, 999);
  EXPECT_GT(real.CpuTime(), absl::ZeroDuration());
  real.Close(connection);
  EXPECT_LE(recv(pair.client.get(), &byte, 1, 0), 0);
  EXPECT_LE(recv(pair.server.get(), &byte, 1, 0), 0);  // what had arrived is gone
}

TEST(SurroundingsTest, LeaveTheNextOwnerOfADescriptorAlone) {
  Surroundings& real = Surroundings::Real();
  Pair pair = Connect();
  Connection gone = Known(pair.server);
  ++gone.socket;  // as if the descriptor had been closed and taken again
  ASSERT_EQ(send(pair.client.get(), "x", 1, 0), 1);
  char byte = 0;
  ASSERT_EQ(recv(pair.server.get(), &byte, 1, MSG_PEEK), 1);
  EXPECT_EQ(real.Of(gone).received, 0);
  real.Close(gone);
  EXPECT_EQ(recv(pair.server.get(), &byte, 1, 0), 1);
  EXPECT_EQ(send(pair.server.get(), "y", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(recv(pair.client.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(SocketBehind(-1), 0u);
}

}  // namespace
}  // namespace stretto::service
