#include "worker/engine/schedule/reorder.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Buffers 0..5 of four elements; 4 and 5 are the halves of 3.
StepProgram StepOf(std::vector<Op> ops) {
  StepProgram step;
  step.lanes = {{"serial", -1}};
  for (int i = 0; i < 4; ++i)
    step.buffers.push_back({.name = std::string(1, static_cast<char>('a' + i)), .shape = {4}});
  step.buffers.push_back({.name = "low", .shape = {2}, .alias = 3, .alias_offset = 0});
  step.buffers.push_back({.name = "high", .shape = {2}, .alias = 3, .alias_offset = 2});
  step.units = {{"forward", std::move(ops)}};
  return step;
}

Op OpOf(std::string name, std::vector<int> in, std::vector<int> out, int slice = 0,
        OpKind kind = OpKind::kGelu) {
  Op op;
  op.kind = kind;
  op.tag = {.layer = 0, .name = std::move(name), .slice = slice};
  op.in = std::move(in);
  op.out = std::move(out);
  return op;
}

std::string NamesOf(const StepProgram& step) {
  std::string names;
  for (const Op& op : step.units[0].ops) names += op.tag.name;
  return names;
}

void ExpectRefused(StepProgram step, const std::vector<int>& order, const std::string& message) {
  const std::string before = NamesOf(step);
  const absl::Status status = Reorder(&step, 0, order);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_EQ(NamesOf(step), before);
}

TEST(ReorderTest, IndependentOperationsMove) {
  StepProgram step = StepOf({OpOf("p", {0}, {1}), OpOf("q", {0}, {2}), OpOf("r", {2}, {3})});
  EXPECT_TRUE(Reorder(&step, 0, {1, 2, 0}).ok());
  EXPECT_EQ(NamesOf(step), "qrp");
}

TEST(ReorderTest, AReadMayNotPassItsWriter) {
  ExpectRefused(StepOf({OpOf("p", {0}, {1}), OpOf("q", {1}, {2})}), {1, 0},
                "unit forward: the new order changes what 'gelu L0.q fwd s0' reads or overwrites");
}

TEST(ReorderTest, AWriteMayNotPassAnEarlierRead) {
  ExpectRefused(StepOf({OpOf("p", {1}, {2}), OpOf("q", {0}, {1})}), {1, 0},
                "changes what 'gelu L0.p fwd s0' reads");
}

TEST(ReorderTest, TwoWritesKeepTheirOrder) {
  ExpectRefused(StepOf({OpOf("p", {0}, {1}), OpOf("q", {2}, {1})}), {1, 0}, "reads or overwrites");
}

TEST(ReorderTest, AccumulationsKeepTheirOrder) {
  ExpectRefused(StepOf({OpOf("p", {0, 1}, {1}), OpOf("q", {2, 1}, {1})}), {1, 0},
                "reads or overwrites");
}

TEST(ReorderTest, AReadOfTheWholeStaysBehindTheWritesOfItsParts) {
  const StepProgram step = StepOf({OpOf("p", {0}, {4}), OpOf("q", {0}, {5}), OpOf("r", {3}, {1})});
  ExpectRefused(step, {1, 2, 0}, "changes what 'gelu L0.r fwd s0' reads");
  ExpectRefused(step, {0, 2, 1}, "changes what 'gelu L0.r fwd s0' reads");
  StepProgram swapped = step;
  EXPECT_TRUE(Reorder(&swapped, 0, {1, 0, 2}).ok());
}

TEST(ReorderTest, OnlyPermutationsAreOrders) {
  const StepProgram step = StepOf({OpOf("p", {0}, {1}), OpOf("q", {0}, {2})});
  ExpectRefused(step, {0}, "unit forward: found 1 operations, expected all 2");
  ExpectRefused(step, {0, 0}, "found operation 0 twice or out of range, expected a permutation");
  ExpectRefused(step, {0, 2}, "found operation 2 twice or out of range");
  ExpectRefused(step, {0, -1}, "found operation -1 twice or out of range");
}

TEST(WeaveTest, StrandsAreChainsEndedByCollectivesWithTheirFiller) {
  Unit unit{"backward", {}};
  for (int slice : {0, 1}) {
    unit.ops.push_back(OpOf("d", {}, {}, slice, OpKind::kGemmDgrad));
    unit.ops.push_back(OpOf("w", {}, {}, slice, OpKind::kGemmWgrad));
    unit.ops.push_back(OpOf("r", {}, {}, slice, OpKind::kAllReduce));
    unit.ops.push_back(OpOf("e", {}, {}, slice, OpKind::kLayerNormDgrad));
  }
  const std::vector<Strand> strands = StrandsOf(unit);
  ASSERT_EQ(strands.size(), 2u);
  ASSERT_EQ(strands[1].size(), 2u);
  EXPECT_THAT(strands[1][0].chain, ElementsAre(4));
  EXPECT_THAT(strands[1][0].filler, ElementsAre(5));
  EXPECT_EQ(strands[1][0].collective, 6);
  EXPECT_THAT(strands[1][1].chain, ElementsAre(7));
  EXPECT_EQ(strands[1][1].collective, -1);
  EXPECT_THAT(RoundRobin(strands), ElementsAre(Pair(0, 0), Pair(1, 0), Pair(0, 1), Pair(1, 1)));
  EXPECT_THAT(Weave(strands, RoundRobin(strands)), ElementsAre(0, 2, 1, 4, 6, 5, 3, 7));
}

TEST(WeaveTest, StrandsOfUnequalLengthEndWhereTheyEnd) {
  const std::vector<Strand> strands = {{{{0}, 1, {}}, {{2}, -1, {}}}, {{{3}, -1, {}}}};
  EXPECT_THAT(Weave(strands, RoundRobin(strands)), ElementsAre(0, 1, 3, 2));
}

}  // namespace
}  // namespace stretto
