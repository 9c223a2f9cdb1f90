// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/happens_before.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/ids.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Operations without operands on random lanes that wait for random earlier ones.
Program RandomProgram(uint32_t seed) {
  std::mt19937 random(seed);
  Program program;
  program.lanes = {Lane{"a"}, Lane{"b"}, Lane{"c"}};
  for (int i = 0; i < 40; ++i) {
    Op op;
    op.lane = LaneId::Of(random() % 3);
    if (i > 0 && random() % 2 == 0) op.waits = {OpId::Of(random() % static_cast<uint32_t>(i))};
    program.ops.push_back(op);
  }
  return program;
}

// Reachability over lane order and waits, by definition.
std::vector<std::vector<bool>> Reachable(const Program& program) {
  const size_t n = program.ops.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < j; ++i) {
      const WaitList& waits = program.ops[OpId::Of(j)].waits;
      const bool direct = program.ops[OpId::Of(i)].lane == program.ops[OpId::Of(j)].lane ||
                          std::find(waits.begin(), waits.end(), OpId::Of(i)) != waits.end();
      if (!direct) continue;
      before[i][j] = true;
      for (size_t k = 0; k < i; ++k) before[k][j] = before[k][j] || before[k][i];
    }
  }
  return before;
}

TEST(HappensBeforeTest, IsReachabilityOverLaneOrderAndWaits) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Program program = RandomProgram(seed);
    const HappensBefore order = *HappensBefore::Build(program);
    const auto before = Reachable(program);
    for (size_t i = 0; i < before.size(); ++i) {
      for (size_t j = 0; j < before.size(); ++j) {
        EXPECT_EQ(order.Before(OpId::Of(i), OpId::Of(j)), before[i][j])
            << seed << ": " << i << ", " << j;
      }
    }
  }
}

TEST(FirstAfterTest, IsTheFirstOperationOfALaneThatComesAfter) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Program program = RandomProgram(seed);
    const HappensBefore order = *HappensBefore::Build(program);
    const FirstAfter after(program, order);
    const auto before = Reachable(program);
    for (size_t i = 0; i < before.size(); ++i) {
      for (LaneId lane : program.lanes.ids()) {
        OpId first = FirstAfter::kNever;
        for (size_t j = before.size(); j-- > 0;) {
          if (program.ops[OpId::Of(j)].lane == lane && before[i][j]) first = OpId::Of(j);
        }
        EXPECT_EQ(after.of(OpId::Of(i))[lane.position()], first) << seed << ": " << i;
      }
    }
  }
}

TEST(HappensBeforeTest, ItsOrderIsThatOfTheProgramWhereWaitsPointBack) {
  EXPECT_THAT(ValuesOf(HappensBefore::Build(ProgramOf(kLinear))->order()), ElementsAre(0, 1, 2));
}

// Text may list a producer after its consumer on another lane.
TEST(HappensBeforeTest, AWaitMayPointForward) {
  const Program program = ProgramOf(
      "program rank=0 world=1\nlane a\nlane b\n"
      "buffer %0 x f32 4 activation\n"
      "0 a zero x fwd out=%0 wait=2\n"
      "1 b zero x fwd out=%0\n"
      "2 b zero x fwd out=%0\n");
  const HappensBefore order = *HappensBefore::Build(program);
  EXPECT_THAT(ValuesOf(order.order()), ElementsAre(1, 2, 0));
  EXPECT_TRUE(order.Before(1, 0));
  EXPECT_FALSE(order.Before(0, 2));
}

// Lanes a and b hold each other up; c and d only suffer from it.
TEST(HappensBeforeTest, ACycleNamesItsMembersAndNoOthers) {
  const Program program = ProgramOf(
      "program rank=0 world=1\nlane c\nlane a\nlane b\nlane d\n"
      "buffer %0 x f32 4 activation\n"
      "0 c zero victim fwd out=%0 wait=3\n"
      "1 a zero first fwd out=%0 wait=4\n"
      "2 b zero second fwd out=%0 wait=3\n"
      "3 a zero third fwd out=%0\n"
      "4 b zero fourth fwd out=%0\n"
      "5 d zero bystander fwd out=%0 wait=0\n");
  const absl::Status status = HappensBefore::Build(program).status();
  ExpectRejected(status,
                 "cycle: lane order and waits contradict each other, starting with: "
                 "1 a zero first fwd out=%0 wait=4; 2 b zero second fwd out=%0 wait=3");
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("victim")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("bystander")));
}

}  // namespace
}  // namespace stretto
