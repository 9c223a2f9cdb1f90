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

TEST(ReorderTest, OperationsMove) {
  StepProgram step = StepOf({OpOf("p", {0}, {1}), OpOf("q", {0}, {2}), OpOf("r", {2}, {3})});
  EXPECT_TRUE(Reorder(&step, 0, {1, 2, 0}).ok());
  EXPECT_EQ(NamesOf(step), "qrp");
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
