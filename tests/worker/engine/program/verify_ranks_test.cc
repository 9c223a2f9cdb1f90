// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

// Two collectives on independent buffers.
constexpr char kTwoCollectives[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "group other 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "lane comm.other\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 8 input\n"
    "0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp\n"
    "1 comm.tp all_reduce second fwd in=%1 out=%1 on=tp\n";

TEST(VerifyRanksTest, ASwappedOrderOfCollectivesIsRejected) {
  const std::string swapped = With(
      With(OnRank1(kTwoCollectives), "0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp\n", ""),
      "1 comm.tp all_reduce second fwd in=%1 out=%1 on=tp\n",
      "0 comm.tp all_reduce second fwd in=%1 out=%1 on=tp\n"
      "1 comm.tp all_reduce first fwd in=%0 out=%0 on=tp\n");
  ASSERT_TRUE(Verify(ProgramOf(swapped)).ok());
  ExpectRejected(
      VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(swapped)}),
      "collectives differ: rank 0 is at '0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp' "
      "(4 f32), rank 1 at "
      "'0 comm.tp all_reduce second fwd in=%1 out=%1 on=tp' (8 f32)");
}

TEST(VerifyRanksTest, CollectivesOfDifferentKindSizeOrTypeAreRejected) {
  for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
           {"all_reduce first", "all_reduce_max first"},
           {"x f32 4", "x f32 5"},
           {"x f32 4", "x bf16 4"}}) {
    ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives),
                                ProgramOf(With(OnRank1(kTwoCollectives), from, to))}),
                   "collectives differ: rank 0 is at");
  }
}

TEST(VerifyRanksTest, CollectivesOfDifferentTagOrWireTypeAreRejected) {
  const std::string first = "0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp";
  for (const char* changed : {"0 comm.tp all_reduce first bwd in=%0 out=%0 on=tp",
                              "0 comm.tp all_reduce L1.first fwd in=%0 out=%0 on=tp",
                              "0 comm.tp all_reduce first fwd mb1 in=%0 out=%0 on=tp",
                              "0 comm.tp all_reduce first fwd s1 in=%0 out=%0 on=tp",
                              "0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp wire=1"}) {
    const std::string other = With(OnRank1(kTwoCollectives), first, changed);
    ASSERT_TRUE(Verify(ProgramOf(other)).ok()) << Verify(ProgramOf(other));
    ExpectRejected(
        VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(other)}),
        absl::StrCat("collectives differ: rank 0 is at '", first, "' (4 f32), rank 1 at '", changed,
                     "' (4 f32), expected the same collective"));
  }
}

TEST(VerifyRanksTest, ScattersOfDifferentSizeAreRejected) {
  const std::string scatter =
      "program rank=0 world=2\ngroup tp 0,1\nlane comm.tp\n"
      "buffer %0 x f32 8 input\n"
      "buffer %1 y f32 4 activation\n"
      "0 comm.tp reduce_scatter part fwd in=%0 out=%1 on=tp\n";
  EXPECT_TRUE(VerifyRanks({ProgramOf(scatter), ProgramOf(OnRank1(scatter))}).ok());
  const std::string larger = With(With(scatter, "f32 8", "f32 16"), "f32 4", "f32 8");
  ExpectRejected(
      VerifyRanks({ProgramOf(scatter), ProgramOf(OnRank1(larger))}),
      "(8 f32 to 4 f32), rank 1 at '0 comm.tp reduce_scatter part fwd in=%0 out=%1 on=tp' "
      "(16 f32 to 8 f32)");
  const std::string gather = With(With(With(scatter, "f32 8", "f32 4"), "%1 y f32 4", "%1 y f32 8"),
                                  "reduce_scatter", "all_gather");
  ASSERT_TRUE(Verify(ProgramOf(gather)).ok()) << Verify(ProgramOf(gather));
  ExpectRejected(VerifyRanks({ProgramOf(scatter), ProgramOf(OnRank1(gather))}),
                 "rank 1 at '0 comm.tp all_gather part fwd in=%0 out=%1 on=tp' (4 f32 to 8 f32)");
}

TEST(VerifyRanksTest, MembersThatSeeAnotherGroupAreRejected) {
  const std::string three = With(kTwoCollectives, "world=2", "world=3");
  const Program rank0 = ProgramOf(three), rank1 = ProgramOf(With(OnRank1(three), "0,1", "1,2"));
  const Program rank2 = ProgramOf(With(With(three, "rank=0", "rank=2"), "0,1", "1,2"));
  ExpectRejected(VerifyRanks({rank0, rank1, rank2}),
                 "rank 1: found ranks 1,2 in group tp, expected 0,1, as on rank 0");
}

TEST(VerifyRanksTest, ALaneMayComputeAndCommunicate) {
  const std::string serial =
      With(With(With(With(kLinear, "lane compute\nlane comm.tp\n", "lane serial\n"), " wait=0", ""),
                " wait=1", ""),
           "1 comm.tp", "1 compute");
  const Program first = ProgramOf(With(serial, " compute ", " serial "));
  Program second = ProgramOf(OnRank1(With(serial, " compute ", " serial ")));
  EXPECT_TRUE(VerifyRanks({first, second}).ok());
  second.ops[0].out = second.ops[2].out;  // other compute: no business of the peers
  EXPECT_TRUE(VerifyRanks({first, second}).ok());
  second.ops.erase(second.ops.begin() + 1);
  ExpectRejected(VerifyRanks({first, second}),
                 "deadlock: nothing can proceed, with rank 0 at '1 serial all_reduce");
}

TEST(VerifyRanksTest, AMissingCollectiveIsADeadlock) {
  const std::string shorter =
      With(OnRank1(kTwoCollectives), "1 comm.tp all_reduce second fwd in=%1 out=%1 on=tp\n", "");
  ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(shorter)}),
                 "deadlock: nothing can proceed, with rank 0 at '1 comm.tp all_reduce second");
}

TEST(VerifyRanksTest, CrossedWaitsBetweenRanksAreADeadlock) {
  // Each rank alone is fine: rank 0 does first then second, rank 1 second then first, in two
  // groups.
  const std::string two_lanes =
      With(With(kTwoCollectives, "1 comm.tp all_reduce", "1 comm.other all_reduce"), "out=%1 on=tp",
           "out=%1 on=other");
  const std::string first = With(two_lanes, "on=other", "on=other wait=0");
  const std::string second = With(OnRank1(two_lanes), "on=tp", "on=tp wait=1");
  ASSERT_TRUE(Verify(ProgramOf(first)).ok());
  ASSERT_TRUE(Verify(ProgramOf(second)).ok());
  ExpectRejected(VerifyRanks({ProgramOf(first), ProgramOf(second)}),
                 "deadlock: nothing can proceed, with "
                 "rank 0 at '0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp'; "
                 "rank 0 at '1 comm.other all_reduce second fwd in=%1 out=%1 on=other wait=0'; "
                 "rank 1 at '0 comm.tp all_reduce first fwd in=%0 out=%0 on=tp wait=1'; "
                 "rank 1 at '1 comm.other all_reduce second fwd in=%1 out=%1 on=other'");
}

TEST(VerifyRanksTest, APeerWithoutTheGroupIsRejected) {
  const std::string other =
      With(With(OnRank1(kTwoCollectives), "group tp", "group dp"), "on=tp", "on=dp");
  ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(other)}),
                 "rank 1: found none in group tp, expected 0,1, as on rank 0");
}

TEST(VerifyRanksTest, APeerMayCarryAGroupOnALaneOfAnotherName) {
  const std::string other = With(OnRank1(kTwoCollectives), "comm.tp", "comm.0");
  EXPECT_TRUE(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(other)}).ok());
}

TEST(VerifyRanksTest, ProgramsOutOfPlaceAreRejected) {
  ExpectRejected(VerifyRanks({ProgramOf(kLinear), ProgramOf(kLinear)}),
                 "program 1: found rank 0 of 2, expected rank 1 of 2");
  ExpectRejected(VerifyRanks({ProgramOf(kLinear)}),
                 "program 0: found rank 0 of 2, expected rank 0 of 1");
}

}  // namespace
}  // namespace stretto
