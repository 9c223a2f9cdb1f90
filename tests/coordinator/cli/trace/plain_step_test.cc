// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/plain_step.h"

#include <gtest/gtest.h>

#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

v1alpha1::TraceStep Plain(int64_t number) {
  v1alpha1::TraceStep step = MakeStep(number);
  step.clear_checkpoint_waits();
  return step;
}

TEST(PlainStepTest, IsTheNewestWithoutEvaluationAndCheckpoint) {
  PlainStep plain;
  EXPECT_EQ(plain.step(), 0);
  plain.Add(Plain(1));
  plain.Add(Plain(2));
  plain.Add(MakeStep(3));  // waits for a checkpoint
  v1alpha1::TraceStep evaluates = Plain(4);
  AddInterval(90'000'000, 95'000'000, evaluates.mutable_evaluations());
  plain.Add(evaluates);
  EXPECT_EQ(plain.step(), 2);
}

TEST(PlainStepTest, AHundredthOfWaitingDoesNotCount) {
  constexpr int64_t kHundredth = 1'000'000;
  v1alpha1::TraceStep step = Plain(2);
  AddInterval(0, kHundredth, step.mutable_checkpoint_waits());
  PlainStep just;
  just.Add(Plain(1));
  just.Add(step);
  EXPECT_EQ(just.step(), 2);
  AddInterval(kHundredth, kHundredth + 1, step.mutable_checkpoint_waits());
  PlainStep more;
  more.Add(Plain(1));
  more.Add(step);
  EXPECT_EQ(more.step(), 1);
}

TEST(PlainStepTest, WithoutAPlainOneItIsTheNewest) {
  PlainStep plain;
  plain.Add(MakeStep(7));
  plain.Add(MakeStep(8));
  EXPECT_EQ(plain.step(), 8);
}

}  // namespace
}  // namespace stretto::cli
