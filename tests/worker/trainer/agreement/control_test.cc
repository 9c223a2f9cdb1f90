// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/comm/local/local.h"

namespace stretto::trainer {
namespace {

void OnEveryRank(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::unique_ptr<Communicator>> group = LocalGroup::Create(ranks);
  std::vector<std::thread> threads;
  for (const auto& member : group) threads.emplace_back([&] { body(*member); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ControlTest, WishOfOneRankHoldsForAll) {
  OnEveryRank(3, [](Communicator& me) {
    const auto word = Agree(me, {.stop = me.rank() == 1,
                                 .checkpoint = me.rank() == 2,
                                 .fenced = me.rank() == 0,
                                 .saving = me.rank() == 1});
    ASSERT_TRUE(word.ok()) << word.status();
    EXPECT_TRUE(word->stop);
    EXPECT_TRUE(word->checkpoint);
    EXPECT_TRUE(word->fenced);
    EXPECT_TRUE(word->saving);
  });
}

TEST(ControlTest, NobodyStopsWhenNobodyAsked) {
  OnEveryRank(2, [](Communicator& me) {
    const auto word = Agree(me, {});
    ASSERT_TRUE(word.ok()) << word.status();
    EXPECT_FALSE(word->stop);
    EXPECT_FALSE(word->checkpoint);
  });
}

TEST(ControlTest, TextsOfUnequalLengthArriveWholeAndInRankOrder) {
  OnEveryRank(3, [](Communicator& me) {
    const std::vector<std::string> texts = {"", std::string("a\0b", 3), std::string(1001, 'x')};
    const auto all = ExchangeText(me, texts[static_cast<size_t>(me.rank())]);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(*all, texts);
  });
}

TEST(ControlTest, NumbersArriveBitByBitAndInRankOrder) {
  OnEveryRank(3, [](Communicator& me) {
    const double third = 1.0 / 3;
    const auto all = ExchangeNumbers(me, {me.rank() + third, -0.0});
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->size(), 3u);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ((*all)[rank][0], static_cast<double>(rank) + third);
      EXPECT_TRUE(std::signbit((*all)[rank][1]));
    }
  });
}

TEST(ControlTest, TextOfOneRankReachesAll) {
  for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(1001, 'x')}) {
    OnEveryRank(3, [&](Communicator& me) {
      const auto found = BroadcastText(me, me.rank() == 1 ? text : "another", 1);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, text);
    });
  }
}

TEST(ControlTest, LostPeerIsAnError) {
  std::vector<std::unique_ptr<Communicator>> group = LocalGroup::Create(2);
  group[1].reset();
  EXPECT_FALSE(Agree(*group[0], {.stop = true}).ok());
  EXPECT_FALSE(ExchangeText(*group[0], "text").ok());
}

}  // namespace
}  // namespace stretto::trainer
