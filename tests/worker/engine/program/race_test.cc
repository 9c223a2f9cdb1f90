// SPDX-License-Identifier: Apache-2.0

// Races and overwritten values, one kind of fault each, with collectives in flight.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

// A partial product is scattered, its parts are gathered, and each is read.
constexpr char kScatterGather[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 partial f32 8,4 activation\n"
    "buffer %1 own f32 4,4 activation\n"
    "buffer %2 all f32 8,4 activation\n"
    "buffer %3 sum f32 1 activation\n"
    "0 compute zero partial fwd out=%0\n"
    "1 comm.tp reduce_scatter own fwd in=%0 out=%1 on=tp wait=0\n"
    "2 comm.tp all_gather all fwd in=%1 out=%2 on=tp\n"
    "3 compute sum sum fwd in=%2 out=%3 wait=2\n";

TEST(RaceTest, TheHandWrittenProgramIsValid) {
  EXPECT_TRUE(Verify(ProgramOf(kScatterGather)).ok()) << Verify(ProgramOf(kScatterGather));
}

TEST(RaceTest, AReduceScatterReadsItsInputUntilItIsDone) {
  ExpectRejected(
      With(kScatterGather, "3 compute sum sum fwd in=%2 out=%3 wait=2",
           "3 compute zero partial bwd out=%0"),
      "race: 3 compute zero partial bwd out=%0 touches %0 (partial) while 1 comm.tp "
      "reduce_scatter own fwd in=%0 out=%1 on=tp wait=0 reads %0 (partial), expected a wait "
      "between them");
}

TEST(RaceTest, AReduceScatterWritesItsOutputUntilItIsDone) {
  ExpectRejected(With(kScatterGather, "in=%2 out=%3 wait=2", "in=%1 out=%3"),
                 "race: 3 compute sum sum fwd in=%1 out=%3 touches %1 (own) while 1 comm.tp "
                 "reduce_scatter own fwd in=%0 out=%1 on=tp wait=0 writes %1 (own)");
  EXPECT_TRUE(
      Verify(ProgramOf(With(kScatterGather, "in=%2 out=%3 wait=2", "in=%1 out=%3 wait=1"))).ok());
}

TEST(RaceTest, AnAllGatherReadsItsInputUntilItIsDone) {
  ExpectRejected(
      With(kScatterGather, "3 compute sum sum fwd in=%2 out=%3 wait=2",
           "3 compute zero own bwd out=%1 wait=1"),
      "touches %1 (own) while 2 comm.tp all_gather all fwd in=%1 out=%2 on=tp reads %1 (own)");
  // Two may read.
  EXPECT_TRUE(
      Verify(ProgramOf(With(kScatterGather, "in=%2 out=%3 wait=2", "in=%1 out=%3 wait=1"))).ok());
}

TEST(RaceTest, AnAllGatherWritesItsOutputUntilItIsDone) {
  ExpectRejected(
      With(kScatterGather, " wait=2", ""),
      "touches %2 (all) while 2 comm.tp all_gather all fwd in=%1 out=%2 on=tp writes %2 (all)");
}

// Rank r owns part r.
std::string OnRank(int rank, absl::string_view text) {
  return With(text, "rank=0", absl::StrCat("rank=", rank));
}

TEST(RaceTest, ACollectiveMayGatherOverItsOwnPartOnly) {
  const std::string gather =
      With(With(kScatterGather, "%3 sum f32 1 activation\n",
                "%3 sum f32 1 activation\nbuffer %4 part f32 4,4 activation alias=%2+AT\n"),
           "3 compute sum sum fwd in=%2 out=%3 wait=2",
           "3 comm.tp all_gather again fwd in=%4 out=%2 on=tp\n"
           "4 compute sum sum fwd in=%2 out=%3 wait=3");
  const std::string low = With(gather, "+AT", "+0"), high = With(gather, "+AT", "+16");
  EXPECT_TRUE(Verify(ProgramOf(low)).ok()) << Verify(ProgramOf(low));
  EXPECT_TRUE(Verify(ProgramOf(OnRank(1, high))).ok());
  for (const std::string& other : {high, OnRank(1, low)}) {
    ExpectRejected(
        other,
        "operand overwritten: 3 comm.tp all_gather again fwd in=%4 out=%2 on=tp writes %2 (all) "
        "over its own operand %4 (part), expected them apart");
  }
}

TEST(RaceTest, ACollectiveMayScatterIntoItsOwnPartOnly) {
  const std::string scatter =
      With(kScatterGather, "%1 own f32 4,4 activation", "%1 own f32 4,4 activation alias=%0+AT");
  const std::string low = With(scatter, "+AT", "+0"), high = With(scatter, "+AT", "+16");
  EXPECT_TRUE(Verify(ProgramOf(low)).ok()) << Verify(ProgramOf(low));
  EXPECT_TRUE(Verify(ProgramOf(OnRank(1, high))).ok());
  for (const std::string& other : {high, OnRank(1, low)}) {
    ExpectRejected(
        other,
        "operand overwritten: 1 comm.tp reduce_scatter own fwd in=%0 out=%1 on=tp wait=0 "
        "writes %1 (own) over its own operand %0 (partial)");
  }
}

// By planned address, with no alias to show it.
TEST(RaceTest, ACollectiveMayNotOverlapItselfByAddress) {
  const std::string placed = With(
      With(With(With(kScatterGather, "8,4 activation\nbuffer %1", "8,4 activation @0\nbuffer %1"),
                "4,4 activation", "4,4 activation @128"),
           "8,4 activation\nbuffer %3", "8,4 activation @192\nbuffer %3"),
      "f32 1 activation", "f32 1 activation @320");
  EXPECT_TRUE(Verify(ProgramOf(placed)).ok()) << Verify(ProgramOf(placed));
  ExpectRejected(
      With(placed, "@192", "@160"),
      "operand overwritten: 2 comm.tp all_gather all fwd in=%1 out=%2 on=tp writes %2 (all) "
      "over its own operand %1 (own)");
}

// Another buffer takes the address of one that a collective still reads, or still writes.
TEST(RaceTest, AnAddressIsNotFreeWhileACollectiveIsInFlight) {
  const std::string placed = With(
      With(
          With(kScatterGather, "%0 partial f32 8,4 activation", "%0 partial f32 8,4 activation @0"),
          "%1 own f32 4,4 activation", "%1 own f32 4,4 activation @128"),
      "%3 sum f32 1 activation\n",
      "%3 sum f32 1 activation\nbuffer %4 next f32 4 activation @AT\n");
  const std::string next =
      "3 compute zero next fwd out=%4\n4 compute sum sum fwd in=%2 out=%3 wait=2";
  const std::string early = With(placed, "3 compute sum sum fwd in=%2 out=%3 wait=2", next);
  ExpectRejected(With(early, "@AT", "@64"),
                 "race: 3 compute zero next fwd out=%4 touches %4 (next) while 1 comm.tp "
                 "reduce_scatter own fwd in=%0 out=%1 on=tp wait=0 reads %0 (partial)");
  ExpectRejected(With(early, "@AT", "@144"),
                 "race: 3 compute zero next fwd out=%4 touches %4 (next) while 1 comm.tp "
                 "reduce_scatter own fwd in=%0 out=%1 on=tp wait=0 writes %1 (own)");
  const std::string late = With(early, "fwd out=%4", "fwd out=%4 wait=2");
  EXPECT_TRUE(Verify(ProgramOf(With(late, "@AT", "@64"))).ok());
  EXPECT_TRUE(Verify(ProgramOf(With(late, "@AT", "@144"))).ok());
}

// The write waits for the last reader of each lane, not only for the last of all.
TEST(RaceTest, AWriteIsOrderedAfterTheReadersOfEveryLane) {
  const std::string readers =
      "program rank=0 world=1\nlane a\nlane b\nlane c\n"
      "buffer %0 x f32 4 input\n"
      "buffer %1 y f32 1 activation\n"
      "buffer %2 z f32 1 activation\n"
      "0 a sum one fwd in=%0 out=%1\n"
      "1 b sum two fwd in=%0 out=%2\n"
      "2 c zero x fwd out=%0 wait=0,1\n";
  EXPECT_TRUE(Verify(ProgramOf(readers)).ok());
  ExpectRejected(With(readers, "wait=0,1", "wait=1"),
                 "touches %0 (x) while 0 a sum one fwd in=%0 out=%1 reads %0 (x)");
  ExpectRejected(With(readers, "wait=0,1", "wait=0"),
                 "touches %0 (x) while 1 b sum two fwd in=%0 out=%2 reads %0 (x)");
}

// Ordered after the last writer, and through it after those before; a view that the last writer did
// not touch has another.
TEST(RaceTest, EachPartOfABufferHasItsOwnLastWriter) {
  const std::string parts =
      "program rank=0 world=1\nlane a\nlane b\n"
      "buffer %0 both f32 8 activation\n"
      "buffer %1 low f32 4 activation alias=%0+0\n"
      "buffer %2 high f32 4 activation alias=%0+4\n"
      "buffer %3 sum f32 1 activation\n"
      "0 a zero low fwd out=%1\n"
      "1 a zero high fwd out=%2\n"
      "2 b sum sum fwd in=%0 out=%3 wait=1\n";
  EXPECT_TRUE(Verify(ProgramOf(parts)).ok());
  ExpectRejected(With(parts, "wait=1", "wait=0"),
                 "touches %0 (both) while 1 a zero high fwd out=%2 writes %2 (high)");
}

TEST(RaceTest, AValueOverwrittenInPartIsGone) {
  ExpectRejected(
      "program rank=0 world=1\nlane compute\n"
      "buffer %0 a f32 32 activation @0\n"
      "buffer %1 b f32 4 activation @64\n"
      "buffer %2 low f32 16 activation alias=%0+0\n"
      "buffer %3 sum f32 1 activation @256\n"
      "0 compute zero a fwd out=%0\n"
      "1 compute zero b fwd out=%1\n"
      "2 compute sum low fwd in=%2 out=%3\n"
      "3 compute sum a fwd in=%0 out=%3\n",
      "read without a writer: 3 compute sum a fwd in=%0 out=%3 reads %0 (a), which nothing wrote "
      "before, or something overwrote");
}

TEST(RaceTest, ParametersThatShareAnAddressAreRejected) {
  ExpectRejected(
      "program rank=0 world=1\nlane compute\n"
      "buffer %0 w f32 32 parameter @0\n"
      "buffer %1 v f32 32 parameter @64\n"
      "buffer %2 sum f32 1 activation @0\n"
      "0 compute sum w fwd in=%0 out=%2\n",
      "read without a writer: 0 compute sum w fwd in=%0 out=%2 reads %0 (w)");
}

TEST(RaceTest, AnAliasBeforeItsRootIsRejected) {
  Program program = ProgramOf(kScatterGather);
  program.buffers[1].alias = 0;
  program.buffers[1].alias_offset = -4;
  ExpectRejected(Verify(program),
                 "buffer %1 (own): found begin at byte -16 of its root, expected at least 0");
}

}  // namespace
}  // namespace stretto
