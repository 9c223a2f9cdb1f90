// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/sum_in_turn.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/trainer/local_job.h"
#include "worker/engine/layout/layout.h"

namespace stretto::trainer {
namespace {

// Numbers whose sum depends on the order in which they are added.
const std::vector<double> kNumbers = {1e16, 3.0, -1e16, 1.0, 0.1, 1e8, 0.7, -1e8};

TEST(SumInTurnTest, IsThatOfOneReplicaBitForBit) {
  double expected = 0;
  for (double number : kNumbers) expected += number;
  for (int tp_size : {1, 2}) {
    for (int dp_size : {1, 2, 4}) {
      JobConfig config;
      config.engine.tp_size = tp_size;
      config.engine.dp_size = dp_size;
      OnLocalRanks(config, [&](LocalRank& rank) {
        std::vector<double> mine;
        const auto replica = static_cast<size_t>(PlaceOf(config.engine, rank.config.rank).replica);
        for (size_t i = replica; i < kNumbers.size(); i += static_cast<size_t>(dp_size)) {
          mine.push_back(kNumbers[i]);
        }
        const auto sum = SumInTurn(config.engine, *rank.control, mine);
        ASSERT_TRUE(sum.ok()) << sum.status();
        EXPECT_EQ(*sum, expected) << tp_size << " x " << dp_size;
      });
    }
  }
}

// One replica of the last stage has the shares of two of the first.
TEST(SumInTurnTest, AddsTheSharesOfAReplicaInTheirOrder) {
  double expected = 0;
  for (double number : kNumbers) expected += number;
  for (int replicas : {1, 2, 4}) {
    JobConfig config;
    config.engine.pp_size = 2;
    config.engine.dp_size = 4;
    config.engine.model.layers = 2;
    config.engine.stages = {{.layers = 1}, {.layers = 1, .dp_size = replicas}};
    config.engine.schedule.slices = {1};
    OnLocalRanks(config, [&](LocalRank& rank) {
      const Place place = PlaceOf(config.engine, rank.config.rank);
      const auto shares = static_cast<size_t>(4 / replicas);
      std::vector<double> mine(2 * shares);
      for (size_t i = 0; i < mine.size() && place.stage == 1; ++i) {
        const size_t share = static_cast<size_t>(place.replica) * shares + i % shares;
        mine[i] = kNumbers[4 * (i / shares) + share];
      }
      const auto sum = SumInTurn(config.engine, *rank.control, mine);
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, expected) << replicas;
    });
  }
}

}  // namespace
}  // namespace stretto::trainer
