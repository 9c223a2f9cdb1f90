#include "worker/engine/program/verify.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

void ExpectRejected(const absl::Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

void ExpectRejected(const std::string& text, const std::string& message) {
  ExpectRejected(Verify(ProgramOf(text)), message);
}

std::string OnRank1(absl::string_view text) { return With(text, "rank=0", "rank=1"); }

TEST(VerifyTest, TheHandWrittenProgramIsValid) {
  EXPECT_TRUE(Verify(ProgramOf(kLinear)).ok()) << Verify(ProgramOf(kLinear));
  EXPECT_TRUE(VerifyRanks({ProgramOf(kLinear), ProgramOf(OnRank1(kLinear))}).ok());
}

TEST(VerifyTest, ARemovedWaitBeforeACollectiveIsARace) {
  ExpectRejected(With(kLinear, " wait=0", ""),
                 "race: 1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 touches %2 (y) while 0 compute gemm");
}

TEST(VerifyTest, ARemovedWaitAfterACollectiveIsARace) {
  ExpectRejected(With(kLinear, " wait=1", ""),
                 "touches %2 (y) while 1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 wait=0 writes %2 (y), "
                 "expected a wait between them");
}

TEST(VerifyTest, AWriteUnderACollectiveIsARaceEvenWhenNobodyReadsItAgain) {
  const std::string text = absl::StrCat(With(kLinear, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1\n", ""),
                                        "2 compute zero y fwd out=%2\n");
  ExpectRejected(text, "race: 2 compute zero y fwd out=%2 touches %2 (y)");
}

TEST(VerifyTest, TwoLanesMayReadTogether) {
  const std::string text = absl::StrCat(With(kLinear, "lane compute\n", "lane compute\nlane copy\n"),
                                        "buffer %4 b f32 4,8 activation\n"
                                        "3 copy gelu L0.act fwd in=%0 out=%4\n");
  EXPECT_TRUE(Verify(ProgramOf(text)).ok()) << Verify(ProgramOf(text));
}

TEST(VerifyTest, AReadWithoutAWriterIsRejected) {
  ExpectRejected(With(kLinear, "buffer %0 x f32 4,8 input", "buffer %0 x f32 4,8 activation"),
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
  ExpectRejected(With(kLinear, "in=%0,%1 out=%2", "in=%0,%1 out=%2 wait=1"),
                 "cycle: lane order and waits contradict each other, starting with: 0 compute gemm");
}

TEST(VerifyTest, AWaitForNoOperationIsRejected) {
  ExpectRejected(With(kLinear, "wait=1", "wait=3"), "wait on 3, expected another operation below 3");
  ExpectRejected(With(kLinear, "wait=1", "wait=2"), "wait on 2, expected another operation below 3");
}

TEST(VerifyTest, AnArenaOverrunIsRejected) {
  const std::string placed = With(With(With(With(kLinear, "8 input", "8 input @0"), "8 parameter", "8 parameter @0"),
                                       "%2 y f32 4,8 activation", "%2 y f32 4,8 activation @0"),
                                  "%3 a f32 4,8 activation", "%3 a f32 4,8 activation @128");
  ArenaBytes arenas = {256, 0, 0, 128, 0, 256};
  EXPECT_TRUE(Verify(ProgramOf(placed), &arenas).ok()) << Verify(ProgramOf(placed), &arenas);
  arenas[5] = 255;
  ExpectRejected(Verify(ProgramOf(placed), &arenas),
                 "arena overrun: buffer %3 (a) at offset 128 of 128 bytes, expected to lie inside the activation arena "
                 "of 255 bytes");
  ExpectRejected(Verify(ProgramOf(kLinear), &arenas), "arena overrun: buffer %0 (x) at offset -1");
}

TEST(VerifyTest, AnAliasBeyondItsRootIsRejected) {
  const std::string alias = With(kLinear, "%3 a f32 4,8 activation", "%3 a f32 4,8 activation alias=%2+1");
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
                 "operand overwritten: 2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1 writes %3 (a) over its own "
                 "operand %2 (y)");
}

TEST(VerifyTest, GeluGradMayWorkInPlaceButNotShifted) {
  const std::string text = With(kLinear, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1",
                                "2 compute gelu_grad L0.act bwd mb0 s0 in=%0,%2 out=%2 wait=1");
  EXPECT_TRUE(Verify(ProgramOf(text)).ok()) << Verify(ProgramOf(text));
  const std::string shifted = With(With(text, "%3 a f32 4,8 activation", "%3 a f32 2,8 activation alias=%2+8"),
                                   "in=%0,%2 out=%2 wait=1", "in=%0,%3 out=%2 wait=1");
  EXPECT_FALSE(Verify(ProgramOf(shifted)).ok());
}

struct BadOperands {
  const char* from;
  const char* to;
  const char* message;
};

TEST(VerifyTest, OperandsThatDoNotFitTheirOperationAreRejected) {
  const std::vector<BadOperands> cases = {
      {"in=%0,%1 out=%2", "in=%0 out=%2", "found 1 inputs, expected x, w, bias?"},
      {"in=%0,%1 out=%2", "in=%0,%1,%1,%1 out=%2", "found 4 inputs, expected x, w, bias?"},
      {"in=%0,%1 out=%2", "in=%0,%1", "found 0 outputs, expected y"},
      {"w f32 8,8", "w f32 8,4", "found w f32 [8,4], expected f32 of 8 rows x 8 columns"},
      {"w f32 8,8", "w bf16 8,8", "found w bf16 [8,8], expected f32 of 8 rows x 8 columns"},
      {"in=%0,%1 out=%2", "in=%0,%1,%0 out=%2", "found bias f32 of 32 elements, expected f32 of 8"},
      {"%3 a f32 4,8", "%3 a f32 8,4", "found a f32 [8,4], expected f32 of 4 rows x 8 columns"},
      {"in=%2 out=%2", "in=%2 out=%3", "found %2 and %3 as x, expected one buffer, read and written"},
      {"1 comm.tp all_reduce", "1 compute all_reduce", "found compute, expected a lane with a group"},
  };
  for (const BadOperands& bad : cases) ExpectRejected(With(kLinear, bad.from, bad.to), bad.message);
}

// One operation between declared buffers: (buffers, operation, message).
struct BadKind {
  const char* buffers;
  const char* op;
  const char* message;
};

TEST(VerifyTest, EachKindChecksItsShapes) {
  const std::vector<BadKind> cases = {
      {"f32 4,8 input|f32 8,8 parameter|f32 4,4 activation", "gemm_dgrad a bwd in=%0,%1 out=%2", "found w f32 [8,8], expected"},
      {"f32 4,8 input|f32 4,6 input|f32 8,8 input", "gemm_wgrad a bwd in=%0,%1,%2 out=%2", "found dw f32 [8,8], expected f32 of 8 rows x 6"},
      {"bf16 4,8 input|bf16 4,8 input|bf16 8,8 input", "gemm_wgrad a bwd in=%0,%1,%2 out=%2", "found dw bf16 [8,8], expected f32"},
      {"f32 4,8 input|f32 4 input", "bias_grad a bwd in=%0,%1 out=%1", "found db f32 of 4 elements, expected f32 of 8"},
      {"f32 4 input|f32 16,8 parameter|f32 4,8 activation", "embed a fwd in=%0,%1 out=%2 start=0 size=9", "found tokens f32 of 4 elements, expected i32 of 4"},
      {"i32 4 input|f32 16,8 parameter|f32 3,8 activation", "embed a fwd in=%0,%1 out=%2 start=0 size=9", "found tokens i32 of 4 elements, expected i32 of 3"},
      {"i32 4 input|f32 4,8 input|f32 16,9 input", "embed_grad a bwd in=%0,%1,%2 out=%2 start=0 size=9", "found dtable f32 [16,9], expected"},
      {"f32 3,8 parameter|f32 4,8 input", "add_position a fwd in=%0,%1 out=%1", "found 4 rows, expected a multiple of 3"},
      {"f32 4,8 input|f32 3,8 input", "position_grad a bwd in=%0,%1 out=%1", "found 4 rows, expected a multiple of 3"},
      {"f32 4,8 input|f32 8 parameter|f32 4,8 activation|f32 4,1 activation", "layer_norm a fwd in=%0,%1,%1 out=%2,%3", "found stats f32 [4,1], expected f32 of 4 rows x 2"},
      {"f32 4,8 input|f32 4 parameter|f32 4,8 activation|f32 4,2 activation", "layer_norm a fwd in=%0,%1,%1 out=%2,%3", "found w f32 of 4 elements, expected f32 of 8"},
      {"f32 4,8 input|f32 4,8 input|f32 4,8 activation", "bias_residual a fwd in=%0,%1,%0 out=%2", "found bias f32 of 32 elements, expected f32 of 8"},
      {"f32 4,8 input|f32 4,7 activation", "gelu a fwd in=%0 out=%1", "found a f32 [4,7]"},
      {"f32 4,12 input|f32 4,4 activation|f32 4,2 activation|f32 64 activation", "attention a fwd in=%0 out=%1,%2,%3 sequence=3 heads=2 head_dim=2", "found 4 rows, expected a multiple of 3"},
      {"f32 4,12 input|f32 4,4 activation|f32 4,2 activation|f32 64 activation", "attention a fwd in=%0 out=%1,%2,%3 sequence=2 heads=1 head_dim=2", "found qkv f32 [4,12], expected f32 of 4 rows x 6"},
      {"f32 4,12 input|f32 4,4 activation|f32 4,2 activation|f32 9 activation", "attention a fwd in=%0 out=%1,%2,%3 sequence=2 heads=2 head_dim=2", "found scratch f32 of 9 elements, expected f32 of 40"},
      {"f32 4,8 input|f32 3 input|i32 4 input|f32 4,2 activation", "cross_entropy_sum a fwd in=%0,%1,%2 out=%3 start=0 size=9", "found targets i32 of 4 elements, expected i32 of 3"},
      {"f32 4 input|f32 4,2 input|i32 4 input|f32 8 input|f32 4,8 input", "cross_entropy_grad a bwd in=%0,%1,%2,%3,%4 out=%4 start=0 size=9", "found scalars f32 of 8 elements, expected f32 of 9"},
      {"f32 4,2 input|f32 3 activation", "cross_entropy_loss a fwd in=%0 out=%1", "found sums f32 [4,2], expected f32 of 3 rows x 2"},
      {"f32 8 input|f32 2 activation", "sum_squares a opt in=%0 out=%1", "found out f32 of 2 elements, expected f32 of 1"},
      {"bf16 8 input|f32 1 activation", "sum a opt in=%0 out=%1", "found parts bf16 of 8 elements, expected f32 of 8"},
      {"f32 1 input|f32 9 input|f32 2 activation", "clip a opt in=%0,%1 out=%2", "found state f32 of 2 elements, expected f32 of 3"},
      {"f32 8 input|f32 3 input|f32 9 input|f32 8 optimizer|f32 7 optimizer|f32 8 optimizer", "adamw a opt in=%0,%1,%2,%3,%4,%5 out=%3,%4,%5 decay=1", "found m f32 of 7 elements, expected f32 of 8"},
  };
  for (const BadKind& bad : cases) {
    std::string text = "program rank=0 world=1\nlane compute\n";
    int id = 0;
    for (absl::string_view buffer : absl::StrSplit(bad.buffers, '|')) {
      absl::StrAppend(&text, "buffer %", id, " b", id, " ", buffer, "\n");
      ++id;
    }
    absl::StrAppend(&text, "0 compute ", bad.op, "\n");
    ExpectRejected(text, bad.message);
  }
}

TEST(VerifyTest, AGroupThatIsNoneIsRejected) {
  ExpectRejected(With(kLinear, "group tp 0,1", "group tp 0,0"), "group tp: found ranks 0,0, expected ranks below 2, ascending");
  ExpectRejected(With(kLinear, "group tp 0,1", "group tp 1"), "group tp: found ranks 1, expected ranks below 2, ascending, rank 0");
}

// Two collectives on independent buffers.
constexpr char kTwoCollectives[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp tp\n"
    "lane comm.tp.2 tp\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 8 input\n"
    "0 comm.tp all_reduce first fwd in=%0 out=%0\n"
    "1 comm.tp all_reduce second fwd in=%1 out=%1\n";

TEST(VerifyRanksTest, ASwappedOrderOfCollectivesIsRejected) {
  const std::string swapped = With(With(OnRank1(kTwoCollectives), "0 comm.tp all_reduce first fwd in=%0 out=%0\n", ""),
                                   "1 comm.tp all_reduce second fwd in=%1 out=%1\n",
                                   "0 comm.tp all_reduce second fwd in=%1 out=%1\n"
                                   "1 comm.tp all_reduce first fwd in=%0 out=%0\n");
  ASSERT_TRUE(Verify(ProgramOf(swapped)).ok());
  ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(swapped)}),
                 "collectives differ: rank 0 is at '0 comm.tp all_reduce first fwd in=%0 out=%0' (4 f32), rank 1 at "
                 "'0 comm.tp all_reduce second fwd in=%1 out=%1' (8 f32)");
}

TEST(VerifyRanksTest, CollectivesOfDifferentKindSizeOrTypeAreRejected) {
  for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
           {"all_reduce first", "all_reduce_max first"}, {"x f32 4", "x f32 5"}, {"x f32 4", "x bf16 4"}}) {
    ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(With(OnRank1(kTwoCollectives), from, to))}),
                   "collectives differ: rank 0 is at");
  }
}

TEST(VerifyRanksTest, ALaneMayComputeAndCommunicate) {
  const std::string serial = With(With(With(With(kLinear, "lane compute\nlane comm.tp tp\n", "lane serial tp\n"), " wait=0", ""),
                                       " wait=1", ""), "1 comm.tp", "1 compute");
  const Program first = ProgramOf(With(serial, " compute ", " serial "));
  Program second = ProgramOf(OnRank1(With(serial, " compute ", " serial ")));
  EXPECT_TRUE(VerifyRanks({first, second}).ok());
  second.ops[0].out = second.ops[2].out;  // other compute: no business of the peers
  EXPECT_TRUE(VerifyRanks({first, second}).ok());
  second.ops.erase(second.ops.begin() + 1);
  ExpectRejected(VerifyRanks({first, second}), "deadlock: nothing can go on, with rank 0 at '1 serial all_reduce");
}

TEST(VerifyRanksTest, AMissingCollectiveIsADeadlock) {
  const std::string shorter = With(OnRank1(kTwoCollectives), "1 comm.tp all_reduce second fwd in=%1 out=%1\n", "");
  ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(shorter)}),
                 "deadlock: nothing can go on, with rank 0 at '1 comm.tp all_reduce second");
}

TEST(VerifyRanksTest, CrossedWaitsBetweenRanksAreADeadlock) {
  // Each rank alone is fine: rank 0 does first then second, rank 1 second then first, on two lanes.
  const std::string two_lanes = With(kTwoCollectives, "1 comm.tp all_reduce", "1 comm.tp.2 all_reduce");
  const std::string first = With(two_lanes, "in=%1 out=%1", "in=%1 out=%1 wait=0");
  const std::string second = With(OnRank1(two_lanes), "in=%0 out=%0", "in=%0 out=%0 wait=1");
  ASSERT_TRUE(Verify(ProgramOf(first)).ok());
  ASSERT_TRUE(Verify(ProgramOf(second)).ok());
  ExpectRejected(VerifyRanks({ProgramOf(first), ProgramOf(second)}), "deadlock: nothing can go on, with rank 0 at");
}

TEST(VerifyRanksTest, APeerWithoutTheLaneIsRejected) {
  const std::string other = With(OnRank1(kTwoCollectives), "comm.tp ", "comm.other ");
  ExpectRejected(VerifyRanks({ProgramOf(kTwoCollectives), ProgramOf(other)}),
                 "rank 1: found no communication lane comm.tp, expected one, as on rank 0");
}

TEST(VerifyRanksTest, ProgramsOutOfPlaceAreRejected) {
  ExpectRejected(VerifyRanks({ProgramOf(kLinear), ProgramOf(kLinear)}),
                 "program 1: found rank 0 of 2, expected rank 1 of 2");
  ExpectRejected(VerifyRanks({ProgramOf(kLinear)}), "program 0: found rank 0 of 2, expected rank 0 of 1");
}

}  // namespace
}  // namespace stretto
