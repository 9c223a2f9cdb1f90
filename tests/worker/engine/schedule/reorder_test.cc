// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/reorder/reorder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/steps.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(StepProgram step, const std::vector<OpId>& order, const std::string& message) {
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

}  // namespace
}  // namespace stretto
