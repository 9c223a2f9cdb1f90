// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/verify.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

TEST(VerifyTest, TheHandWrittenProgramIsValid) {
  EXPECT_TRUE(Verify(ProgramOf(kLinear)).ok()) << Verify(ProgramOf(kLinear));
  EXPECT_TRUE(VerifyRanks({ProgramOf(kLinear), ProgramOf(OnRank1(kLinear))}).ok());
}

TEST(VerifyTest, ARemovedWaitBeforeACollectiveIsARace) {
  ExpectRejected(
      With(kLinear, " wait=0", ""),
      "race: 1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 on=tp touches %2 (y) while 0 "
      "compute gemm");
}

TEST(VerifyTest, ARemovedWaitAfterACollectiveIsARace) {
  ExpectRejected(
      With(kLinear, " wait=1", ""),
      "touches %2 (y) while 1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 on=tp wait=0 "
      "writes %2 (y), "
      "expected a wait between them");
}

TEST(VerifyTest, AWriteUnderACollectiveIsARaceEvenWhenNobodyReadsItAgain) {
  const std::string text =
      absl::StrCat(With(kLinear, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1\n", ""),
                   "2 compute zero y fwd out=%2\n");
  ExpectRejected(text, "race: 2 compute zero y fwd out=%2 touches %2 (y)");
}

TEST(VerifyTest, AWriteUnderAReadOfAnotherLaneIsARace) {
  const std::string text = absl::StrCat(With(kLinear, "in=%2 out=%3 wait=1", "in=%0 out=%3"),
                                        "3 comm.tp all_reduce x fwd in=%0 out=%0 on=tp\n");
  ExpectRejected(
      text,
      "race: 3 comm.tp all_reduce x fwd in=%0 out=%0 on=tp touches %0 (x) while 2 compute "
      "gelu L0.act fwd mb0 s0 in=%0 out=%3 reads %0 (x)");
}

TEST(VerifyTest, TwoLanesMayReadTogether) {
  const std::string text =
      absl::StrCat(With(kLinear, "lane compute\n", "lane compute\nlane copy\n"),
                   "buffer %4 b f32 4,8 activation\n"
                   "3 copy gelu L0.act fwd in=%0 out=%4\n");
  EXPECT_TRUE(Verify(ProgramOf(text)).ok()) << Verify(ProgramOf(text));
}

TEST(VerifyTest, AReadWithoutAWriterIsRejected) {
  ExpectRejected(
      With(kLinear, "buffer %0 x f32 4,8 input", "buffer %0 x f32 4,8 activation"),
      "read without a writer: 0 compute gemm L0.fc fwd mb0 s0 in=%0,%1 out=%2 reads %0 (x)");
}

TEST(VerifyTest, AReadOfAHalfWrittenBufferIsRejected) {
  const std::string text =
      "program rank=0 world=1\nlane compute\n"
      "buffer %0 both f32 8 activation\n"
      "buffer %1 low f32 4 activation alias=%0+0\n"
      "buffer %2 sum f32 1 activation\n"
      "0 compute zero a fwd out=%1\n"
      "1 compute sum a fwd in=%0 out=%2\n";
  ExpectRejected(text, "read without a writer: 1 compute sum a fwd in=%0 out=%2 reads %0 (both)");
  EXPECT_TRUE(Verify(ProgramOf(With(text, "f32 4 activation", "f32 8 activation"))).ok());
}

TEST(VerifyTest, AReadOfAnOverwrittenPlaceIsRejected) {
  const std::string text =
      "program rank=0 world=1\nlane compute\n"
      "buffer %0 a f32 4 activation @0\n"
      "buffer %1 b f32 4 activation @8\n"
      "buffer %2 sum f32 1 activation @64\n"
      "0 compute zero a fwd out=%0\n"
      "1 compute zero b fwd out=%1\n"
      "2 compute sum a fwd in=%0 out=%2\n";
  ExpectRejected(text, "reads %0 (a), which nothing wrote before, or something overwrote");
}

TEST(VerifyTest, ACycleOfWaitsAndLaneOrderIsRejected) {
  ExpectRejected(
      With(kLinear, "in=%0,%1 out=%2", "in=%0,%1 out=%2 wait=1"),
      "cycle: lane order and waits contradict each other, starting with: 0 compute gemm");
}

// Each lane has a thread, and one thread at a time may use a group's channel.
TEST(VerifyTest, AGroupOnTwoLanesIsRejected) {
  const std::string two = With(With(kLinear, "lane comm.tp\n", "lane comm.tp\nlane comm.tp.1\n"),
                               "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1\n",
                               "2 comm.tp.1 all_reduce x fwd in=%0 out=%0 on=tp wait=0\n");
  ExpectRejected(two,
                 "operation 2: found group tp on lane comm.tp.1, expected lane comm.tp, as "
                 "operation 1");
  EXPECT_TRUE(Verify(ProgramOf(With(With(two, "group tp 0,1\n", "group tp 0,1\ngroup tp.1 0,1\n"),
                                    "in=%0 out=%0 on=tp", "in=%0 out=%0 on=tp.1")))
                  .ok());
}

TEST(VerifyTest, NamesOfGroupsAndLanesAreUnique) {
  ExpectRejected(With(kLinear, "group tp 0,1\n", "group tp 0,1\ngroup tp 0\n"),
                 "group tp: found two of this name, expected one");
  ExpectRejected(With(kLinear, "lane compute\n", "lane compute\nlane compute\n"),
                 "lane compute: found two of this name, expected one");
}

TEST(VerifyTest, AWaitForNoOperationIsRejected) {
  ExpectRejected(With(kLinear, "wait=1", "wait=3"),
                 "wait on 3, expected another operation below 3");
  ExpectRejected(With(kLinear, "wait=1", "wait=2"),
                 "wait on 2, expected another operation below 3");
}

TEST(VerifyTest, AnArenaOverrunIsRejected) {
  const std::string placed =
      With(With(With(With(kLinear, "8 input", "8 input @0"), "8 parameter", "8 parameter @0"),
                "%2 y f32 4,8 activation", "%2 y f32 4,8 activation @0"),
           "%3 a f32 4,8 activation", "%3 a f32 4,8 activation @128");
  ArenaBytes arenas = {256, 0, 0, 128, 0, 256};
  EXPECT_TRUE(Verify(ProgramOf(placed), &arenas).ok()) << Verify(ProgramOf(placed), &arenas);
  arenas[5] = 255;
  ExpectRejected(Verify(ProgramOf(placed), &arenas),
                 "arena overrun: buffer %3 (a) at offset 128 of 128 bytes, expected to lie inside "
                 "the activation arena "
                 "of 255 bytes");
  ExpectRejected(Verify(ProgramOf(kLinear), &arenas), "arena overrun: buffer %0 (x) at offset -1");
}

TEST(VerifyTest, AnAliasBeyondItsRootIsRejected) {
  const std::string alias =
      With(kLinear, "%3 a f32 4,8 activation", "%3 a f32 4,8 activation alias=%2+1");
  ExpectRejected(alias, "buffer %3 (a): found end at byte 132 of its root, expected at most 128");
}

TEST(VerifyTest, AnAliasOfAnotherTypeIsRejected) {
  ExpectRejected(With(kLinear, "%3 a f32 4,8 activation", "%3 a bf16 4,8 activation alias=%2+0"),
                 "buffer %3 (a): found bf16, expected f32, the type of its root");
}

TEST(VerifyTest, UnorderedReuseOfAnAddressIsRejected) {
  // %4 takes %2's address while the all_reduce of %2 is still in flight.
  std::string text = With(With(kLinear, "%2 y f32 4,8 activation", "%2 y f32 4,8 activation @0"),
                          "%3 a f32 4,8 activation\n",
                          "%3 a f32 4,8 activation @128\nbuffer %4 b f32 4,8 activation @64\n");
  text = With(text, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1",
              "2 compute gelu L0.act fwd mb0 s0 in=%0 out=%4");
  ExpectRejected(text, "touches %4 (b) while 1 comm.tp all_reduce");
}

TEST(VerifyTest, AnOutputOverItsOwnInputIsRejected) {
  ExpectRejected(With(kLinear, "%3 a f32 4,8 activation", "%3 a f32 4,8 activation alias=%2+0"),
                 "operand overwritten: 2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1 writes "
                 "%3 (a) over its own "
                 "operand %2 (y)");
}

TEST(VerifyTest, GeluGradMayWorkInPlaceButNotShifted) {
  const std::string text = With(kLinear, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1",
                                "2 compute gelu_grad L0.act bwd mb0 s0 in=%0,%2 out=%2 wait=1");
  EXPECT_TRUE(Verify(ProgramOf(text)).ok()) << Verify(ProgramOf(text));
  const std::string shifted =
      With(With(text, "%3 a f32 4,8 activation", "%3 a f32 2,8 activation alias=%2+8"),
           "in=%0,%2 out=%2 wait=1", "in=%0,%3 out=%2 wait=1");
  EXPECT_FALSE(Verify(ProgramOf(shifted)).ok());
}

TEST(VerifyTest, AGroupThatIsNoneIsRejected) {
  ExpectRejected(With(kLinear, "group tp 0,1", "group tp 0,0"),
                 "group tp: found ranks 0,0, expected ranks below 2, each once");
  ExpectRejected(With(kLinear, "group tp 0,1", "group tp 1"),
                 "group tp: found ranks 1, expected ranks below 2, each once, rank 0");
}

}  // namespace
}  // namespace stretto
