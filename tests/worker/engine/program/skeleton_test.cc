// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/skeleton.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

// Two groups of both ranks, each on its lane, and computation that connects them.
constexpr char kTwoGroups[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "group dp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "lane comm.dp\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 4 input\n"
    "0 comm.tp all_reduce a fwd in=%0 out=%0 on=tp\n"
    "1 compute zero b fwd out=%0 wait=0\n"
    "2 comm.dp all_reduce c fwd in=%1 out=%1 on=dp wait=1\n"
    "3 comm.tp all_reduce d fwd in=%0 out=%0 on=tp wait=1\n";

Skeleton Of(absl::string_view text) { return *SkeletonOf(ProgramOf(text)); }

absl::Status Together(absl::string_view first, absl::string_view second) {
  const Skeleton one = Of(first), two = Of(second);
  return VerifySkeletons({&one, &two});
}

TEST(SkeletonTest, CountsWhatCompletesBeforeEachCall) {
  const Skeleton skeleton = Of(kTwoGroups);
  EXPECT_EQ(skeleton.calls[0].size(), 2u);
  EXPECT_EQ(skeleton.calls[1].size(), 1u);
  // [call of tp]{tp, dp}: the first needs nothing, the second the first.
  EXPECT_THAT(skeleton.before[0], ElementsAre(0, 0, 1, 0));
  // dp waits for the computation, and that for the first call of tp.
  EXPECT_THAT(skeleton.before[1], ElementsAre(1, 0));
  EXPECT_EQ(skeleton.calls[0][1].op, 3);
}

TEST(SkeletonTest, OperationsOfOneLaneWaitForEachOther) {
  const Skeleton skeleton =
      Of(With(With(With(kTwoGroups, "2 comm.dp", "2 comm.tp"), " wait=0", ""), " wait=1", ""));
  EXPECT_THAT(skeleton.before[0], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(skeleton.before[1], ElementsAre(1, 0));
}

TEST(SkeletonTest, PackedBytesGiveTheSameSkeleton) {
  Skeleton skeleton = Of(kTwoGroups);
  skeleton.issued = {0, 1, 0};
  const std::string bytes = Pack(skeleton);
  EXPECT_EQ(*Unpack(bytes), skeleton);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Unpack(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Unpack(bytes + "x").ok());
  ExpectRejected(Unpack("other").status(), "skeleton of 5 bytes: found another format");
  for (const std::vector<GroupId>& issued : {std::vector<GroupId>{0, 1}, {0, 0, 0}, {0, 1, 2}}) {
    skeleton.issued = issued;
    EXPECT_FALSE(Unpack(Pack(skeleton)).ok());
  }
  // A length of any value must neither crash nor allocate.
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    for (char byte : {'\x7f', '\x80', '\xff'}) {
      std::string hostile = bytes;
      hostile.replace(at, 4, 4, byte);
      Unpack(hostile).IgnoreError();
    }
  }
}

TEST(VerifySkeletonsTest, RanksThatAgreePass) {
  EXPECT_TRUE(Together(kTwoGroups, OnRank1(kTwoGroups)).ok());
  // Other computation is no business of the peers.
  EXPECT_TRUE(Together(kTwoGroups, With(OnRank1(kTwoGroups), "zero b fwd", "zero e bwd")).ok());
}

TEST(VerifySkeletonsTest, CallsThatDifferAreRejected) {
  for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
           {"all_reduce d", "all_reduce_max d"},
           {"all_reduce d fwd", "all_reduce d bwd"},
           {"all_reduce d fwd", "all_reduce d fwd mb1"},
           {"in=%0 out=%0 on=tp wait=1", "in=%0 out=%0 on=tp wire=1 wait=1"}}) {
    ExpectRejected(Together(kTwoGroups, With(OnRank1(kTwoGroups), from, to)),
                   "group tp, call 1: found rank 0 at operation 3 and rank 1 at operation 3, which "
                   "differ, expected the same collective on every member");
  }
  ExpectRejected(Together(kTwoGroups, With(OnRank1(kTwoGroups), "y f32 4", "y f32 8")),
                 "group dp, call 0: found rank 0 at operation 2 and rank 1 at operation 2");
}

TEST(VerifySkeletonsTest, AMissingCallIsADeadlock) {
  const std::string shorter =
      With(OnRank1(kTwoGroups), "3 comm.tp all_reduce d fwd in=%0 out=%0 on=tp wait=1\n", "");
  ExpectRejected(Together(kTwoGroups, shorter),
                 "deadlock: nothing can proceed, with rank 0 at operation 3 of group tp");
}

TEST(VerifySkeletonsTest, CrossedWaitsThroughComputationAreADeadlock) {
  // Rank 0 starts dp when the first call of tp is done; rank 1 the other way round.
  const std::string crossed =
      "program rank=1 world=2\ngroup tp 0,1\ngroup dp 0,1\n"
      "lane compute\nlane comm.tp\nlane comm.dp\n"
      "buffer %0 x f32 4 input\nbuffer %1 y f32 4 input\n"
      "0 comm.dp all_reduce c fwd in=%1 out=%1 on=dp\n"
      "1 compute zero b fwd out=%1 wait=0\n"
      "2 comm.tp all_reduce a fwd in=%0 out=%0 on=tp wait=1\n"
      "3 comm.tp all_reduce d fwd in=%0 out=%0 on=tp\n";
  ASSERT_TRUE(Verify(ProgramOf(crossed)).ok()) << Verify(ProgramOf(crossed));
  ExpectRejected(
      Together(kTwoGroups, crossed),
      "deadlock: nothing can proceed, with rank 0 at operation 0 of group tp; rank 0 at "
      "operation 2 of group dp; rank 1 at operation 2 of group tp; rank 1 at operation 0 "
      "of group dp");
}

// Both ranks enqueue `first` and `second`.
absl::Status Issued(const std::vector<GroupId>& first, const std::vector<GroupId>& second) {
  Skeleton one = Of(kTwoGroups), two = Of(OnRank1(kTwoGroups));
  one.issued = first;
  two.issued = second;
  return VerifySkeletons({&one, &two});
}

TEST(VerifySkeletonsTest, AnOrderOfIssueThatStopsCallsFromStartingIsADeadlock) {
  const GroupId tp = 0, dp = 1;
  EXPECT_TRUE(Issued({tp, dp, tp}, {tp, dp, tp}).ok());
  // The last two start whatever the other rank does.
  EXPECT_TRUE(Issued({tp, dp, tp}, {tp, tp, dp}).ok());
  EXPECT_TRUE(Issued({tp, dp, tp}, {}).ok());
  // dp waits for computation, and that for the first call of tp.
  ExpectRejected(Issued({tp, dp, tp}, {dp, tp, tp}),
                 "deadlock: nothing can proceed, with rank 0 at operation 0 of group tp; rank 0 at "
                 "operation 2 of group dp; rank 1 at operation 0 of group tp, enqueued behind "
                 "operation 2; rank 1 at operation 2 of group dp");
}

// Two calls of each group, which wait for nothing.
constexpr char kFreeCalls[] =
    "program rank=0 world=2\n"
    "group a 0,1\n"
    "group b 0,1\n"
    "lane comm.a\n"
    "lane comm.b\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 4 input\n"
    "0 comm.a all_reduce p fwd in=%0 out=%0 on=a\n"
    "1 comm.a all_reduce q fwd in=%0 out=%0 on=a\n"
    "2 comm.b all_reduce r fwd in=%1 out=%1 on=b\n"
    "3 comm.b all_reduce s fwd in=%1 out=%1 on=b\n";

// The second call of a group starts when the first is done, not when it has started. So neither
// rank starts the group that the other begins with.
TEST(VerifySkeletonsTest, ACallIsEnqueuedBehindTheEndOfTheOneBeforeItOnItsLane) {
  const auto issued = [](const std::vector<GroupId>& first, const std::vector<GroupId>& second) {
    Skeleton one = Of(kFreeCalls), two = Of(OnRank1(kFreeCalls));
    one.issued = first;
    two.issued = second;
    return VerifySkeletons({&one, &two});
  };
  const GroupId a = 0, b = 1;
  EXPECT_TRUE(issued({a, b, a, b}, {b, a, b, a}).ok());
  ExpectRejected(issued({a, a, b, b}, {b, b, a, a}),
                 "deadlock: nothing can proceed, with rank 0 at operation 0 of group a; rank 0 at "
                 "operation 2 of group b, enqueued behind operation 1; rank 1 at operation 0 of "
                 "group a, enqueued behind operation 3; rank 1 at operation 2 of group b");
}

TEST(VerifySkeletonsTest, MembersThatSeeAnotherGroupAreRejected) {
  ExpectRejected(Together(kTwoGroups, With(With(OnRank1(kTwoGroups), "group dp", "group pp"),
                                           "on=dp", "on=pp")),
                 "rank 1: found none in group dp, expected 0,1, as on rank 0");
  ExpectRejected(Together(kTwoGroups, With(OnRank1(kTwoGroups), "group dp 0,1", "group dp 1")),
                 "rank 1: found 1 in group dp, expected 0,1, as on rank 0");
}

// The definition: VerifyRanks on whole programs. Real programs of two ranks, one of which has an
// operation moved, dropped, or deprived of a wait, or gets a wait for a random earlier one.
void ExpectTheVerdictsOfVerifyRanks(const Layout& layout) {
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  const std::vector<Program> plans = {PlanOf(layout, 0).program, PlanOf(layout, 1).program};
  std::vector<OpId> calls;
  for (OpId op : plans[1].ops.ids()) {
    if (plans[1].ops[op].group >= 0) calls.push_back(op);
  }
  int accepted = 0, rejected = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Program> programs = plans;
    Program& changed = programs[1];
    const auto any = [&] { return OpId::Of(below(changed.ops.next().value())); };
    const OpId at = any(), call = calls[below(static_cast<int>(calls.size()))];
    const int change = below(4);
    if (change == 0) std::swap(changed.ops[call].tag, changed.ops[any()].tag);
    if (change == 1) ++changed.ops[call].tag.layer;
    if (change == 2) changed.ops[at].waits.clear();
    if (change == 3 && at > 0) changed.ops[at].waits.push_back(OpId::Of(below(at.value())));
    const Skeleton first = *SkeletonOf(programs[0]), second = *SkeletonOf(programs[1]);
    const absl::Status found = VerifySkeletons({&first, &second});
    const bool expected = VerifyRanks(programs).ok();
    ASSERT_EQ(found.ok(), expected) << trial << ": " << found << "; " << VerifyRanks(programs);
    (expected ? accepted : rejected) += 1;
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(rejected, 30);
}

TEST(VerifySkeletonsTest, DecideWhatVerifyRanksDecides) {
  ExpectTheVerdictsOfVerifyRanks(Domino({1, 1}, 2));
}

TEST(VerifySkeletonsTest, DecideWhatVerifyRanksDecidesOfStages) {
  Layout layout = Domino({1, 1}, 6);
  layout.tp_size = 1;
  layout.pp_size = 2;
  ExpectTheVerdictsOfVerifyRanks(layout);
}

}  // namespace
}  // namespace stretto
