// SPDX-License-Identifier: Apache-2.0
#include "worker/data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

using testing::ElementsAre;

std::vector<size_t> First(const std::vector<double>& weights, int64_t count) {
  const Blend blend(weights);
  std::vector<size_t> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(blend.At(i).part);
  return parts;
}

// How far a part's count ever is from its share of the samples so far.
double WorstDeviation(const std::vector<double>& weights, int64_t count) {
  const Blend blend(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts(weights.size());
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Blend::Place place = blend.At(i);
    EXPECT_EQ(place.index, counts[place.part]) << i;
    ++counts[place.part];
    for (size_t part = 0; part < weights.size(); ++part) {
      const double share = weights[part] / sum * static_cast<double>(i + 1);
      worst = std::max(worst, std::abs(static_cast<double>(counts[part]) - share));
    }
  }
  return worst;
}

TEST(BlendTest, OnePartHasEverySample) {
  const Blend blend({0.3});
  for (int64_t i : {int64_t{0}, int64_t{1}, int64_t{1} << 61}) {
    EXPECT_EQ(blend.At(i).part, 0u);
    EXPECT_EQ(blend.At(i).index, i);
  }
}

// Another order would silently feed resumed runs other data.
TEST(BlendTest, OrderIsFixedForEver) {
  EXPECT_THAT(First({0.7, 0.3}, 10), ElementsAre(0, 1, 0, 0, 1, 0, 0, 0, 1, 0));
  EXPECT_THAT(First({3, 2, 5}, 10), ElementsAre(0, 2, 1, 2, 0, 2, 1, 2, 0, 2));
}

TEST(BlendTest, OnlyTheRatioOfWeightsCounts) {
  EXPECT_EQ(First({0.5, 0.25, 0.125}, 100), First({4, 2, 1}, 100));
}

// The bounds of docs/design/0019-data.md; 1e-6 for sums in f64.
TEST(BlendTest, EveryPrefixIsInProportion) {
  EXPECT_LE(WorstDeviation({0.7, 0.3}, 10000), 0.5 + 1e-6);
  EXPECT_LE(WorstDeviation({1e-3, 1}, 10000), 0.5 + 1e-6);
  EXPECT_LE(WorstDeviation({0.5, 0.3, 0.2}, 10000), 1 + 1e-6);
  EXPECT_LE(WorstDeviation({0.55, 0.44, 0.01}, 10000), 1 + 1e-6);
  EXPECT_LE(WorstDeviation({0.4, 0.3, 0.2, 0.07, 0.03}, 10000), 1 + 1e-6);
  EXPECT_LE(WorstDeviation(std::vector<double>(16, 1.0), 10000), 1 + 1e-6);
  std::mt19937_64 random(3);
  for (size_t parts = 2; parts <= 40; ++parts) {
    std::vector<double> weights;
    for (size_t i = 0; i < parts; ++i) {
      weights.push_back(std::exp(static_cast<double>(random() % 1000) / 100));
    }
    EXPECT_LE(WorstDeviation(weights, 3000), parts < 3 ? 0.5 + 1e-6 : parts < 4 ? 1 + 1e-6 : 1.7);
  }
}

TEST(BlendTest, IsAsExactAfterManySamples) {
  const std::vector<double> weights = {0.7, 0.3 - 1e-9, 1e-9};
  const Blend blend(weights);
  for (const int64_t count : {int64_t{1} << 40, int64_t{1'000'000'007}}) {
    std::vector<bool> seen(3);
    for (int64_t i = count; !seen[0] || !seen[1]; ++i) {
      const Blend::Place place = blend.At(i);
      seen[place.part] = true;
      EXPECT_NEAR(static_cast<double>(place.index), static_cast<double>(i) * weights[place.part],
                  1.01);
    }
  }
}

TEST(BlendTest, TheLightestPartHasItsTurn) {
  const Blend blend({1, 1e-4});
  int64_t first = 0;
  while (blend.At(first).part == 0) ++first;
  EXPECT_NEAR(static_cast<double>(first), 5000, 2);  // in the middle of its share
}

}  // namespace
}  // namespace stretto
