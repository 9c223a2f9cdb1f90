// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

struct BadOperands {
  const char* from;
  const char* to;
  const char* message;
};

TEST(VerifyShapesTest, OperandsThatDoNotFitTheirOperationAreRejected) {
  const std::vector<BadOperands> cases = {
      {"in=%0,%1 out=%2", "in=%0 out=%2", "found 1 inputs, expected x, w, bias?"},
      {"in=%0,%1 out=%2", "in=%0,%1,%1,%1 out=%2", "found 4 inputs, expected x, w, bias?"},
      {"in=%0,%1 out=%2", "in=%0,%1", "found 0 outputs, expected y"},
      {"w f32 8,8", "w f32 8,4", "found w f32 [8,4], expected f32 of 8 rows x 8 columns"},
      {"w f32 8,8", "w bf16 8,8", "found w bf16 [8,8], expected f32 of 8 rows x 8 columns"},
      {"in=%0,%1 out=%2", "in=%0,%1,%0 out=%2", "found bias f32 of 32 elements, expected f32 of 8"},
      {"%3 a f32 4,8", "%3 a f32 8,4", "found a f32 [8,4], expected f32 of 4 rows x 8 columns"},
      {"in=%2 out=%2", "in=%2 out=%3",
       "found %2 and %3 as x, expected one buffer, read and written"},
      {" on=tp", "", "operation 1: found group -1, expected below 1"},
      {"in=%0,%1 out=%2", "in=%0,%1 out=%2 on=tp",
       "operation 0: found group 0, expected none, because it computes"},
  };
  for (const BadOperands& bad : cases) ExpectRejected(With(kLinear, bad.from, bad.to), bad.message);
}

// One operation between declared buffers: (buffers, operation, message).
struct BadKind {
  const char* buffers;
  const char* op;
  const char* message;
};

TEST(VerifyShapesTest, EachKindChecksItsShapes) {
  const std::vector<BadKind> cases = {
      {"f32 4,8 input|f32 7,8 parameter|f32 4,4 activation", "gemm_dgrad a bwd in=%0,%1 out=%2",
       "found w f32 [7,8], expected f32 of 8 rows x 8"},
      {"f32 4,8 input|f32 8,8 parameter|f32 3,4 activation", "gemm_dgrad a bwd in=%0,%1 out=%2",
       "found dx f32 [3,4], expected f32 of 4 rows x 4"},
      {"f32 4,8 input|f32 8,8 parameter|f32 4,4 activation",
       "gemm_dgrad a bwd in=%0,%1 out=%2 column=5", "found columns up to 9, expected at most 8"},
      {"f32 4,8 input|f32 4,6 input|f32 8,8 input", "gemm_wgrad a bwd in=%0,%1,%2 out=%2",
       "found dw f32 [8,8], expected f32 of 8 rows x 6"},
      {"bf16 4,8 input|bf16 4,8 input|bf16 8,8 input", "gemm_wgrad a bwd in=%0,%1,%2 out=%2",
       "found dw bf16 [8,8], expected f32"},
      {"f32 4,8 input|f32 4 input", "bias_grad a bwd in=%0,%1 out=%1",
       "found db f32 of 4 elements, expected f32 of 8"},
      {"f32 4 input|f32 16,8 parameter|f32 4,8 activation",
       "embed a fwd in=%0,%1 out=%2 start=0 size=9",
       "found tokens f32 of 4 elements, expected i32 of 4"},
      {"i32 4 input|f32 16,8 parameter|f32 3,8 activation",
       "embed a fwd in=%0,%1 out=%2 start=0 size=9",
       "found tokens i32 of 4 elements, expected i32 of 3"},
      {"i32 4 input|f32 4,8 input|f32 16,9 input",
       "embed_grad a bwd in=%0,%1,%2 out=%2 start=0 size=9", "found dtable f32 [16,9], expected"},
      {"f32 4,7 parameter|f32 4,8 input", "add_position a fwd in=%0,%1 out=%1",
       "found position f32 [4,7], expected f32 of 4 rows x 8"},
      {"f32 4,8 input|f32 4,7 input", "position_grad a bwd in=%0,%1 out=%1",
       "found dposition f32 [4,7], expected f32 of 4 rows x 8"},
      {"f32 4,8 input|f32 8 parameter|f32 4,8 activation|f32 4,1 activation",
       "layer_norm a fwd in=%0,%1,%1 out=%2,%3",
       "found stats f32 [4,1], expected f32 of 4 rows x 2"},
      {"f32 4,8 input|f32 4 parameter|f32 4,8 activation|f32 4,2 activation",
       "layer_norm a fwd in=%0,%1,%1 out=%2,%3", "found w f32 of 4 elements, expected f32 of 8"},
      {"f32 4,8 input|f32 8 parameter|f32 4,8 activation|f32 5 activation",
       "rms_norm a fwd in=%0,%1 out=%2,%3", "found rstd f32 of 5 elements, expected f32 of 4"},
      {"f32 4,8 input|f32 8 parameter|f32 4,8 activation|f32 4,2 activation",
       "layer_norm a fwd in=%0,%1,%1 out=%2,%3 epsilon=1.5",
       "found epsilon 1.5, expected 0 (the default) or at most 1"},
      {"f32 4,8 input|f32 8 parameter|f32 4,8 activation|f32 4 activation",
       "rms_norm a fwd in=%0,%1 out=%2,%3 epsilon=2",
       "found epsilon 2, expected 0 (the default) or at most 1"},
      {"f32 4,12 input",
       "rotary a fwd in=%0 out=%0 sequence=2 heads=2 kv_heads=2 head_dim=2 scaling=3",
       "found scaling 3, expected 0 (none), 1 (linear), 2 (llama3)"},
      {"f32 4,12 input",
       "rotary a fwd in=%0 out=%0 sequence=2 heads=2 kv_heads=2 head_dim=2 scaling=1 factor=0.5",
       "found factor 0.5, expected at least 1"},
      {"f32 4,12 input",
       "rotary a fwd in=%0 out=%0 sequence=2 heads=2 kv_heads=2 head_dim=2 scaling=2 factor=8 "
       "low=4 high=4 original=8",
       "found low 4 and high 4, expected 0 < low < high"},
      {"f32 4,12 input",
       "rotary a fwd in=%0 out=%0 sequence=2 heads=2 kv_heads=2 head_dim=2 scaling=2 factor=8 "
       "low=1 high=4",
       "found original 0, expected at least 1"},
      {"f32 2,4,3 input|f32 4,8 input|f32 8 parameter|f32 4 input|f32 4,8 activation",
       "rms_norm_dgrad a bwd in=%0,%1,%2,%3 out=%4",
       "found dy f32 [2,4,3], expected f32 of 4 rows x 8 columns in pieces"},
      {"f32 4,8 input|f32 4,8 input|f32 4 input|bf16 8 input",
       "rms_norm_wgrad a bwd in=%0,%1,%2,%3 out=%3",
       "found dw bf16 of 8 elements, expected f32 of 8"},
      {"f32 4,8 input|f32 4,8 input|i32 4 input|f32 7 parameter|f32 4,8 activation",
       "bias_residual a fwd in=%0,%1,%2,%3 out=%4",
       "found bias f32 of 7 elements, expected f32 of 8"},
      {"f32 2,4,2 input|f32 4,8 input|i32 4 input|f32 4,8 activation",
       "bias_residual a fwd in=%0,%1,%2 out=%3",
       "found r f32 [2,4,2], expected f32 of 4 rows x 8 columns in pieces"},
      {"f32 4,8 input|f32 2 input|f32 4,8 activation", "dropout a fwd in=%0,%1 out=%2",
       "found keys f32 of 2 elements, expected i32 of"},
      {"f32 4,8 input|f32 4,7 activation", "gelu a fwd in=%0 out=%1", "found a f32 [4,7]"},
      {"f32 4,8 input|f32 4,8 activation", "swiglu a fwd in=%0 out=%1",
       "found a f32 [4,8], expected f32 of 4 rows x 4"},
      {"f32 4,7 input|f32 4,3 activation", "swiglu a fwd in=%0 out=%1",
       "found u f32 [4,7], expected f32 of 4 rows x 6"},
      {"f32 4,8 input|f32 4,4 input|f32 4,4 activation", "swiglu_grad a bwd in=%0,%1 out=%2",
       "found du f32 [4,4], expected f32 of 4 rows x 8"},
      {"f32 4,8 input|bf16 4 output", "copy_box a fwd in=%0 out=%1 n0=4 n1=1 n2=1 n3=1",
       "found y bf16 of 4 elements, expected f32 of 4"},
      {"f32 4,8 input|f32 4,8 output", "copy_box a fwd in=%0 out=%1 n0=4 n1=1 n2=1",
       "found dimension 3 of x from 0 of extent 0, expected at least 1, inside 1"},
      {"f32 4,8 input|f32 4,8 output", "copy_box a fwd in=%0 out=%1 x0=1 n0=4 n1=1 n2=1 n3=1",
       "found dimension 0 of x from 1 of extent 4, expected at least 1, inside 4"},
      {"f32 4,8 input|f32 4,7 output", "copy_box a fwd in=%0 out=%1 n0=4 n1=8 n2=1 n3=1",
       "found dimension 1 of y from 0 of extent 8, expected at least 1, inside 7"},
      {"f32 1,1,1,1,4 input|f32 4 output", "copy_box a fwd in=%0 out=%1 n0=1 n1=1 n2=1 n3=1",
       "found x of 5 dimensions, expected at most 4"},
      {"f32 4,8 input|f32 4,8 activation", "copy_box a fwd in=%0 out=%1 n0=4 n1=7 n2=1 n3=1",
       "found a box of 28 elements of activation y, expected all 32"},
      {"f32 4,8 input", "rotary a fwd in=%0 out=%0 sequence=2 heads=2 kv_heads=2 head_dim=2",
       "found qkv f32 [4,8], expected f32 of 4 rows x 12"},
      {"f32 4,12 input|i32 4 input|f32 4,4 activation|f32 4,2 activation|f32 64 activation",
       "attention a fwd in=%0,%1 out=%2,%3,%4 sequence=3 heads=2 kv_heads=2 head_dim=2",
       "found 4 rows, expected a multiple of 3"},
      {"f32 4,12 input|i32 4 input|f32 4,4 activation|f32 4,2 activation|f32 64 activation",
       "attention a fwd in=%0,%1 out=%2,%3,%4 sequence=2 heads=3 kv_heads=2 head_dim=2",
       "found kv_heads 2, expected a divisor of heads 3"},
      {"f32 4,12 input|i32 4 input|f32 4,4 activation|f32 4,2 activation|f32 64 activation",
       "attention a fwd in=%0,%1 out=%2,%3,%4 sequence=2 heads=2 kv_heads=1 head_dim=2",
       "found qkv f32 [4,12], expected f32 of 4 rows x 8"},
      {"f32 4,12 input|i32 4 input|f32 4,4 activation|f32 4,2 activation|f32 9 activation",
       "attention a fwd in=%0,%1 out=%2,%3,%4 sequence=2 heads=2 kv_heads=2 head_dim=2",
       "found scratch f32 of 9 elements, expected f32 of 16"},
      {"f32 4,8 input|f32 3 input|i32 4 input|f32 4,2 activation",
       "cross_entropy_sum a fwd in=%0,%1,%2 out=%3 start=0 size=9",
       "found targets i32 of 4 elements, expected i32 of 3"},
      {"f32 4 input|f32 4,2 input|i32 4 input|f32 8 input|f32 4,8 input",
       "cross_entropy_grad a bwd in=%0,%1,%2,%3,%4 out=%4 start=0 size=9",
       "found scalars f32 of 8 elements, expected f32 of 9"},
      {"f32 4,2 input|f32 3 activation", "cross_entropy_loss a fwd in=%0 out=%1",
       "found sums f32 [4,2], expected f32 of 3 rows x 2"},
      {"f32 8 input|f32 2 activation", "sum_squares a opt in=%0 out=%1",
       "found out f32 of 2 elements, expected f32 of 1"},
      {"bf16 8 input|f32 1 activation", "sum a opt in=%0 out=%1",
       "found parts bf16 of 8 elements, expected f32 of 8"},
      {"f32 1 input|f32 9 input|f32 2 activation", "clip a opt in=%0,%1 out=%2",
       "found state f32 of 2 elements, expected f32 of 3"},
      {"f32 8 input|f32 3 input|f32 9 input|f32 8 optimizer|f32 7 optimizer|f32 8 optimizer",
       "adamw a opt in=%0,%1,%2,%3,%4,%5 out=%3,%4,%5 decay=1",
       "found m f32 of 7 elements, expected f32 of 8"},
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

TEST(VerifyShapesTest, CollectivesCheckTheirParts) {
  const auto text = [](absl::string_view buffers, absl::string_view op) {
    return absl::StrCat("program rank=0 world=2\ngroup tp 0,1\nlane comm.tp\n", buffers,
                        "0 comm.tp ", op, "\n");
  };
  const std::string buffers = "buffer %0 x f32 8 input\nbuffer %1 y f32 4 activation\n";
  EXPECT_TRUE(Verify(ProgramOf(text(buffers, "reduce_scatter a fwd in=%0 out=%1 on=tp"))).ok());
  EXPECT_TRUE(
      Verify(ProgramOf(text(buffers, "reduce_scatter a fwd in=%0 out=%1 on=tp wire=1"))).ok());
  ExpectRejected(text(buffers, "reduce_scatter a fwd in=%0 out=%1 on=tp wire=7"),
                 "found wire type 7, expected");
  ExpectRejected(text(buffers, "all_gather a fwd in=%0 out=%1 on=tp"),
                 "found x f32 of 8 elements, expected f32 of 2");
  ExpectRejected(text(With(buffers, "y f32", "y bf16"), "reduce_scatter a fwd in=%0 out=%1 on=tp"),
                 "found y bf16 of 4 elements, expected f32 of 4");
  ExpectRejected(text(With(buffers, "f32 8", "f32 16"), "reduce_scatter a fwd in=%0 out=%1 on=tp"),
                 "found y f32 of 4 elements, expected f32 of 8");
}

// Operations that look the same are shown to the check once. These look the same but for one thing,
// and only the second does not fit.
TEST(VerifyShapesTest, TheSecondOfTwoAlikeIsChecked) {
  const std::string text =
      "program rank=0 world=2\ngroup tp 0,1\nlane compute\nlane comm.tp\n"
      "buffer %0 x f32 4,8 input\nbuffer %1 y f32 4,8 activation\nbuffer %2 z f32 4,8 input\n"
      "buffer %3 small f32 4,4 activation\nbuffer %4 w f32 8,8 parameter\n";
  struct Pair {
    const char* good;
    const char* bad;
    const char* message;
  };
  for (const Pair& pair : std::vector<Pair>{
           {"0 compute gelu a fwd in=%0 out=%1", "1 compute gelu a fwd in=%0 out=%3",
            "found a f32"},
           {"0 comm.tp all_reduce a fwd in=%0 out=%0 on=tp",
            "1 comm.tp all_reduce a fwd in=%2 out=%2", "found group -1, expected below 1"},
           {"0 comm.tp all_reduce a fwd in=%0 out=%0 on=tp",
            "1 comm.tp all_reduce a fwd in=%0 out=%2 on=tp",
            "found %0 and %2 as x, expected one buffer, read and written"},
           {"0 compute gemm_dgrad a bwd in=%0,%4 out=%3 column=4",
            "1 compute gemm_dgrad a bwd in=%0,%4 out=%3 column=5", "found columns up to 9"},
           {"0 compute gelu a fwd in=%0 out=%1", "1 compute gelu a fwd in=%0,%0 out=%1",
            "found 2 inputs"}}) {
    EXPECT_TRUE(Verify(ProgramOf(absl::StrCat(text, pair.good, "\n"))).ok()) << pair.good;
    ExpectRejected(absl::StrCat(text, pair.good, "\n", pair.bad, "\n"), pair.message);
  }
}

}  // namespace
}  // namespace stretto
