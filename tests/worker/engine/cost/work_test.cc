// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/work.h"

#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

// The work of the only operation of a program with these buffers.
Work WorkFor(const std::string& buffers, const std::string& op) {
  const Program program = ProgramOf("program rank=0 world=4\ngroup tp 0,1,2,3\nlane all\n" +
                                    buffers + "0 all " + op + "\n");
  return program.ops.empty() ? Work{-1, -1} : WorkOf(program, program.ops[0]);
}

constexpr char kLinearBuffers[] =
    "buffer %0 x bf16 8,16 input\n"
    "buffer %1 w bf16 32,16 parameter\n"
    "buffer %2 y bf16 8,32 activation\n"
    "buffer %3 dw f32 32,16 gradient\n"
    "buffer %4 dx bf16 8,4 activation\n";

TEST(WorkTest, AProductCountsTwicePerMultiplyAddAndEachOperandOnce) {
  const Work work = WorkFor(kLinearBuffers, "gemm fc fwd in=%0,%1 out=%2");
  EXPECT_EQ(work.flops, 2.0 * 8 * 16 * 32);
  EXPECT_EQ(work.bytes, 2.0 * (8 * 16 + 32 * 16 + 8 * 32));
}

TEST(WorkTest, AWeightGradientReadsAndWritesItsSum) {
  const Work work = WorkFor(kLinearBuffers, "gemm_wgrad fc bwd in=%2,%0,%3 out=%3");
  EXPECT_EQ(work.flops, 2.0 * 8 * 16 * 32);
  EXPECT_EQ(work.bytes, 2.0 * (8 * 32 + 8 * 16) + 2 * 4.0 * 32 * 16);
}

TEST(WorkTest, APieceOfTheColumnsReadsThatPieceOfTheWeight) {
  const Work work = WorkFor(kLinearBuffers, "gemm_dgrad fc bwd in=%2,%1 out=%4 column=4");
  EXPECT_EQ(work.flops, 2.0 * 8 * 4 * 32);
  EXPECT_EQ(work.bytes, 2.0 * (8 * 32 + 32 * 4 + 8 * 4));
}

constexpr char kAttentionBuffers[] =
    "buffer %0 qkv f32 8,16 input\n"
    "buffer %1 keys i32 4 input\n"
    "buffer %2 context f32 8,8 activation\n"
    "buffer %3 lse f32 4,4 activation\n"
    "buffer %4 scratch f32 1000 activation\n"
    "buffer %5 dcontext f32 8,8 activation\n"
    "buffer %6 dqkv f32 8,16 activation\n";
constexpr char kHeads[] = " sequence=4 heads=2 kv_heads=1 head_dim=4";

TEST(WorkTest, AttentionCountsTheCausalHalf) {
  const Work work =
      WorkFor(kAttentionBuffers, std::string("attention a fwd in=%0,%1 out=%2,%3,%4") + kHeads);
  // Two sequences, 1+2+3+4 pairs each, 2 heads of 4, queries with keys and probabilities with
  // values.
  EXPECT_EQ(work.flops, 2.0 * 2 * (2 * 10) * 2 * 4);
  EXPECT_EQ(work.bytes, 4.0 * (8 * 16 + 4 + 8 * 8 + 8 * 2));
}

TEST(WorkTest, ItsGradientCountsFiveProducts) {
  const Work work = WorkFor(
      kAttentionBuffers, std::string("attention_grad a bwd in=%5,%0,%2,%3,%1 out=%6,%4") + kHeads);
  EXPECT_EQ(work.flops, 2.0 * 5 * (2 * 10) * 2 * 4);
}

TEST(WorkTest, RotaryTouchesQueriesAndKeys) {
  const Work work =
      WorkFor(kAttentionBuffers, std::string("rotary a fwd in=%0 out=%0") + kHeads + " base=10000");
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 2 * 4.0 * 8 * 12);  // of 16 columns, 4 are values
}

TEST(WorkTest, AnEmbeddingTouchesTheRowsOfItsTokens) {
  const std::string buffers =
      "buffer %0 tokens i32 8 input\n"
      "buffer %1 table bf16 1000,16 parameter\n"
      "buffer %2 y bf16 8,16 activation\n"
      "buffer %3 dtable f32 1000,16 gradient\n";
  EXPECT_EQ(WorkFor(buffers, "embed e fwd in=%0,%1 out=%2 size=1000").bytes,
            4.0 * 8 + 2 * 2.0 * 8 * 16);
  EXPECT_EQ(WorkFor(buffers, "embed_grad e bwd in=%0,%2,%3 out=%3 size=1000").bytes,
            4.0 * 8 + 2.0 * 8 * 16 + 2 * 4.0 * 8 * 16);
}

TEST(WorkTest, EverythingElseMovesItsOperands) {
  const Work work = WorkFor(kLinearBuffers, "gelu g fwd in=%2 out=%2");
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 2 * 2.0 * 8 * 32);
}

TEST(WorkTest, ACollectiveIsNoComputation) {
  const Work work = WorkFor(kLinearBuffers, "all_reduce c fwd in=%0 out=%0 on=tp");
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 0);
}

int64_t WireBytesFor(const std::string& op) {
  const Program program = ProgramOf(
      "program rank=0 world=4\ngroup tp 0,1,2,3\nlane all\n"
      "buffer %0 whole f32 8,16 input\nbuffer %1 part f32 2,16 activation\n"
      "buffer %2 narrow bf16 8,16 input\n0 all " +
      op + "\n");
  return program.ops.empty() ? -1 : WireBytes(program, program.ops[0]);
}

TEST(WireBytesTest, AreThoseOfTheWholeTensor) {
  EXPECT_EQ(WireBytesFor("all_reduce c fwd in=%0 out=%0 on=tp"), 4 * 8 * 16);
  EXPECT_EQ(WireBytesFor("all_reduce_max c fwd in=%0 out=%0 on=tp"), 4 * 8 * 16);
  EXPECT_EQ(WireBytesFor("reduce_scatter c fwd in=%0 out=%1 on=tp"), 4 * 8 * 16);
  EXPECT_EQ(WireBytesFor("all_gather c fwd in=%1 out=%0 on=tp"), 4 * 8 * 16);
}

TEST(WireBytesTest, AreInTheTypeThatTravels) {
  EXPECT_EQ(WireBytesFor("all_reduce c fwd in=%0 out=%0 on=tp wire=1"), 2 * 8 * 16);
  EXPECT_EQ(WireBytesFor("all_gather c fwd in=%1 out=%0 on=tp wire=1"), 2 * 8 * 16);
  EXPECT_EQ(WireBytesFor("all_reduce c fwd in=%2 out=%2 on=tp wire=0"), 2 * 8 * 16)
      << "never widened";
}

}  // namespace
}  // namespace stretto
