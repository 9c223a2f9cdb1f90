// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/fence_watch.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "absl/status/status.h"

namespace stretto::trainer {
namespace {

constexpr absl::Duration kOften = absl::Milliseconds(1);

void Await(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::yield();
}

TEST(FenceWatchTest, LooksUntilANewerAttemptHasBegun) {
  std::atomic<int> looks = 0;
  std::atomic<bool> newer = false;
  const FenceWatch watch(
      [&] {
        ++looks;
        return newer ? absl::AbortedError("epoch 5") : absl::OkStatus();
      },
      kOften);
  Await([&] { return looks >= 3; });
  EXPECT_FALSE(watch.fenced());
  newer = true;
  Await([&] { return watch.fenced(); });
}

TEST(FenceWatchTest, AFolderThatCannotBeReadProvesNothing) {
  std::atomic<int> looks = 0;
  const FenceWatch watch(
      [&] {
        ++looks;
        return looks % 2 == 0 ? absl::UnavailableError("EIO") : absl::NotFoundError("no folder");
      },
      kOften);
  Await([&] { return looks >= 4; });
  EXPECT_FALSE(watch.fenced());
}

TEST(FenceWatchTest, EndsWithoutALook) {
  const FenceWatch watch(
      [] {
        ADD_FAILURE() << "it looked at once";
        return absl::OkStatus();
      },
      absl::Hours(1));
  EXPECT_FALSE(watch.fenced());
}

// A file server does not answer.
TEST(FenceWatchTest, ALookThatDoesNotEndKeepsNobodyWaiting) {
  const auto looking = std::make_shared<std::promise<void>>();
  const auto answer = std::make_shared<std::promise<void>>();
  std::weak_ptr<void> alive;
  {
    const auto owned = std::make_shared<int>();
    alive = owned;
    FenceWatch watch(
        [owned, looking, answer] {
          looking->set_value();
          answer->get_future().wait();
          return absl::AbortedError("epoch 5");
        },
        kOften, /*patience=*/absl::ZeroDuration());
    looking->get_future().wait();
    EXPECT_FALSE(watch.fenced());
  }
  EXPECT_FALSE(alive.expired()) << "it waited for the look, or left it nothing to use";
  answer->set_value();
  Await([&] { return alive.expired(); });
}

}  // namespace
}  // namespace stretto::trainer
