// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/cases.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "worker/bench/kernels/measure.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 3, kTokens = 2 * 16;

EngineSpec Spec() {
  return {.model = {.layers = kLayers,
                    .hidden = 32,
                    .heads = 4,
                    .ffn_hidden = 128,
                    .sequence_length = 16,
                    .vocab_size = 100},
          .schedule = {.slices = {2}},
          .micro_batch_size = 2};
}

const KernelCase* Find(const std::vector<KernelCase>& cases, const std::string& start) {
  for (const KernelCase& found : cases) {
    if (found.operation.rfind(start, 0) == 0) return &found;
  }
  return nullptr;
}

TEST(CasesTest, HasEveryComputationOnceWithTheNumberOfItsCalls) {
  const Program program = BuildPlan(Spec(), 0)->program;
  const std::vector<KernelCase> cases = CasesOf(program);

  int calls = 0;
  std::map<std::string, int> seen;
  for (const KernelCase& each : cases) {
    ++seen[each.operation];
    calls += each.count * static_cast<int>(each.ops.size());
    EXPECT_GT(each.work.bytes, 0) << each.operation;
  }
  EXPECT_EQ(seen.size(), cases.size());
  EXPECT_EQ(calls, static_cast<int>(program.ops.size()));  // one rank: no collectives

  const KernelCase* qkv = Find(cases, "gemm f32[32,32] f32[96,32]");
  ASSERT_NE(qkv, nullptr);
  EXPECT_EQ(qkv->count, kLayers);
  EXPECT_EQ(qkv->place, "fwd qkv gemm");
  EXPECT_EQ(qkv->work.flops, 2.0 * kTokens * 96 * 32);
}

TEST(CasesTest, AResidualWithTheNormBehindItIsOneCallThatMovesTheSumOnce) {
  const std::vector<KernelCase> cases = CasesOf(BuildPlan(Spec(), 0)->program);

  const KernelCase* pair = Find(cases, "bias_residual");
  ASSERT_NE(pair, nullptr);
  EXPECT_THAT(pair->operation, HasSubstr(" + layer_norm "));
  EXPECT_EQ(pair->count, 2 * kLayers);
  ASSERT_EQ(pair->ops.size(), 2u);
  EXPECT_EQ(pair->ops[0].out[0], pair->ops[1].in[0]);
  // Read: r, x, four keys, bias, weight and bias of the norm. Written: sum, y and statistics.
  EXPECT_EQ(pair->work.bytes,
            4.0 * (4 * kTokens * 32 + 3 * 32 + 2 * kTokens) + 4.0 * static_cast<int>(kKeyCount));
}

TEST(CasesTest, TheGradientsOfANormAreOneCallThatReadsItsInputsOnce) {
  const std::vector<KernelCase> cases = CasesOf(BuildPlan(Spec(), 0)->program);

  int calls = 0;
  for (const KernelCase& pair : cases) {
    if (pair.operation.rfind("layer_norm_dgrad", 0) != 0) continue;
    EXPECT_THAT(pair.operation, HasSubstr(" + layer_norm_wgrad "));
    ASSERT_EQ(pair.ops.size(), 2u);
    EXPECT_EQ(pair.ops[0].in[0], pair.ops[1].in[0]);
    calls += pair.count;
    // Read: dy, x, the residual's gradient except behind the loss, statistics, weight and its
    // gradients. Written: dx and the gradients of weight and bias.
    const int tensors = pair.ops[0].in.size() == 5 ? 4 : 3;
    EXPECT_EQ(pair.work.bytes, 4.0 * (tensors * kTokens * 32 + 2 * kTokens + 5 * 32));
  }
  EXPECT_EQ(calls, 2 * kLayers + 1);
}

// Two slices of two micro-batches multiply by the weights of each layer.
TEST(CasesTest, AnOperationKnowsHowManyCallsShareItsWeights) {
  EngineSpec spec = Spec();
  spec.schedule = {.name = "domino_row", .slices = {1, 1}};
  spec.micro_batches = 2;
  const Program program = BuildPlan(spec, 0)->program;
  const std::vector<KernelCase> cases = OperationsOf(program);

  int calls = 0;
  for (const KernelCase& each : cases) {
    EXPECT_EQ(each.ops.size(), 1u) << each.operation;
    calls += each.count;
  }
  EXPECT_EQ(calls, static_cast<int>(program.ops.size()));
  const KernelCase* qkv = Find(cases, "gemm f32[16,32] f32[96,32]");
  ASSERT_NE(qkv, nullptr);
  EXPECT_EQ(qkv->count, 4 * kLayers);
  EXPECT_EQ(qkv->uses, 4);
  EXPECT_EQ(qkv->weights.size(), 2u);  // with the bias
  EXPECT_EQ(Find(cases, "adamw")->uses, 1);
}

TEST(CasesTest, CopiesInARowShareTheWeights) {
  EngineSpec spec = Spec();
  spec.micro_batches = 2;
  const std::vector<KernelCase> cases = OperationsOf(BuildPlan(spec, 0)->program);
  const KernelCase& qkv = *Find(cases, "gemm f32[32,32] f32[96,32]");

  const CaseCopies copies = CopiesOf(qkv, 5, 5);

  const IdVector<OpId, Op>& ops = copies.step.units[0].ops;
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(ops[0].in[1], ops[1].in[1]);
  EXPECT_EQ(ops[2].in[1], ops[3].in[1]);
  EXPECT_NE(ops[1].in[1], ops[2].in[1]);
  EXPECT_NE(ops[0].in[0], ops[1].in[0]);
  EXPECT_EQ(copies.of[ops[3].out[0]], qkv.ops[0].out[0]);
  EXPECT_EQ(CountFor(qkv, 1), 2);
  EXPECT_EQ(CountFor(qkv, int64_t{1} << 40), 64);
}

TEST(CasesTest, MoreCallsThanSetsTakeTheSetsInTurn) {
  const std::vector<KernelCase> cases = OperationsOf(BuildPlan(Spec(), 0)->program);
  const KernelCase& adamw = *Find(cases, "adamw");

  const CaseCopies copies = CopiesOf(adamw, 5, 2);

  const IdVector<OpId, Op>& ops = copies.step.units[0].ops;
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(copies.step.buffers.size(), 2 * adamw.buffers.size());
  EXPECT_NE(ops[0].in, ops[1].in);
  EXPECT_EQ(ops[0].in, ops[2].in);
  EXPECT_EQ(ops[1].in, ops[3].in);
  EXPECT_EQ(ops[0].out, ops[4].out);
}

TEST(CasesTest, LimitsCountWhatTheyMove) {
  EXPECT_EQ(CopyCase(DType::kBF16, 64).work.bytes, 2.0 * 64 * 64 * 2);
  EXPECT_EQ(ProductCase(DType::kBF16, 64).work.flops, 2.0 * 64 * 64 * 64);
}

}  // namespace
}  // namespace stretto::bench
