// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/loop.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stretto::service {
namespace {

void PostShort(Loop& loop) {
  loop.Post([] {});
}

void PostLong(Loop& loop) {
  loop.Post([] {
    const auto end = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(Loop::kTaskBudget + absl::Milliseconds(1));
    while (std::chrono::steady_clock::now() < end) {
    }
  });
}

TEST(LoopTest, TaskOverItsBudgetIsNamedByTheFunctionThatPostedIt) {
  std::vector<std::string> slow;
  Loop loop([&slow](const char* task, absl::Duration took) {
    EXPECT_GT(took, Loop::kTaskBudget);
    slow.emplace_back(task);
  });
  PostLong(loop);
  PostShort(loop);
  loop.Start(absl::Hours(1), [] {});
  loop.Stop();
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow[0], "PostLong");
}

TEST(LoopTest, TheGuardIsAskedBeforeEachTask) {
  std::vector<std::string> order;
  Loop loop(nullptr, [&order] { order.emplace_back("guard"); });
  loop.Post([&order] { order.emplace_back("a"); });
  loop.Post([&order] { order.emplace_back("b"); });
  loop.Start(absl::Hours(1), [] {});
  loop.Stop();
  EXPECT_EQ(order, (std::vector<std::string>{"guard", "a", "guard", "b"}));
}

}  // namespace
}  // namespace stretto::service
