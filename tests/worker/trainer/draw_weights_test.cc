// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/draw_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace stretto::trainer {
namespace {

// Shards that blocks cut within rows, in three dimensions, with padding and without.
std::vector<Parameter> Parameters() {
  return {{.name = "bias", .shape = {70'000}, .starts = {0}, .extents = {70'000}},
          {.name = "norm", .shape = {5}, .starts = {0}, .extents = {5}, .init = Init::kOne},
          {.name = "table",
           .shape = {1024, 301},
           .starts = {512, 0},
           .extents = {512, 301},
           .init = Init::kNormal,
           .init_std = 0.02f,
           .padding_from = 1000},
          {.name = "gate and up",
           .shape = {2, 600, 333},
           .starts = {0, 300, 0},
           .extents = {2, 300, 333},
           .init = Init::kNormal,
           .init_std = 1},
          {.name = "proj",
           .shape = {777, 400},
           .starts = {0, 200},
           .extents = {777, 200},
           .init = Init::kNormal,
           .init_std = 1}};
}

TEST(DrawWeightsTest, BitsDoNotDependOnTheNumberOfThreads) {
  for (const Parameter& parameter : Parameters()) {
    SCOPED_TRACE(parameter.name);
    const auto count = static_cast<size_t>(parameter.count());
    std::vector<float> expected(count);
    Initialise(parameter, 17, expected.data());
    for (int threads : {1, 2, 3, 64}) {
      std::vector<float> drawn(count, std::numeric_limits<float>::quiet_NaN());
      DrawWeights(parameter, 17, threads, drawn.data());
      EXPECT_EQ(std::memcmp(drawn.data(), expected.data(), count * sizeof(float)), 0) << threads;
    }
  }
}

TEST(DrawWeightsTest, AShardIsItsPartOfTheWhole) {
  for (const Parameter& shard : Parameters()) {
    SCOPED_TRACE(shard.name);
    Parameter whole = shard;
    whole.starts.assign(shard.shape.size(), 0);
    whole.extents = shard.shape;
    std::vector<float> all(static_cast<size_t>(whole.count()));
    std::vector<float> part(static_cast<size_t>(shard.count()));
    DrawWeights(whole, 5, 3, all.data());
    DrawWeights(shard, 5, 2, part.data());
    for (size_t i = 0; i < part.size(); ++i) {
      // Row-major, dimension by dimension from the last.
      size_t rest = i, at = 0, stride = 1;
      for (size_t d = shard.shape.size(); d-- > 0;) {
        const auto extent = static_cast<size_t>(shard.extents[d]);
        at += (static_cast<size_t>(shard.starts[d]) + rest % extent) * stride;
        rest /= extent;
        stride *= static_cast<size_t>(shard.shape[d]);
      }
      ASSERT_EQ(std::memcmp(&part[i], &all[at], sizeof(float)), 0) << "element " << i;
    }
  }
}

// All kinds of numbers: ties, overflow, subnormal ones, infinities and NaN.
TEST(DrawWeightsTest, RoundedBitsDoNotDependOnTheNumberOfThreads) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{65'536}, size_t{200'003}}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(i) * 0x9e3779b1u);
    for (size_t i = 0; i < count; i += 3)
      values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) & 0xffff8000u);
    for (int threads : {1, 2, 64}) {
      std::vector<BF16> rounded(count, BF16{0x7fff});
      RoundWeights(values, threads, rounded.data());
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(rounded[i].bits, ToBF16(values[i]).bits) << i << " of " << count;
    }
  }
}

}  // namespace
}  // namespace stretto::trainer
