// SPDX-License-Identifier: Apache-2.0

// The plain counterparts of warp instructions against the layouts that the PTX ISA gives for them.
#include "kernels/cuda/mma.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace stretto::cuda {
namespace {

void RunWarp(const std::function<void()>& thread) {
  cudaLaunchConfig_t config;
  config.blockDim = dim3(kWarpSize);
  cuda_emulator::RunGrid(config, thread);
}

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 17) - 8;
  return values;
}

uint32_t Pair(float low, float high) {
  return ToBF16(low).bits | static_cast<uint32_t>(ToBF16(high).bits) << 16;
}

// "Matrix Fragments for mma.m16n8k16 with floating point type": groupID = lane / 4 and
// threadID_in_group = lane % 4. Small integers make every sum exact.
TEST(MmaTest, ProductOfFragmentsIsTheProductOfMatrices) {
  const auto a = Random(16 * 16, 1), b = Random(16 * 8, 2), c = Random(16 * 8, 3);
  std::vector<float> got(16 * 8, NAN);
  RunWarp([&] {
    const int lane = static_cast<int>(threadIdx.x), group = lane / 4, in_group = lane % 4;
    // Elements a_i, b_i and c_i of the lane.
    const auto a_at = [&](int i) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      return a[static_cast<size_t>(row * 16 + column)];
    };
    const auto b_at = [&](int i) {
      const int row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      return b[static_cast<size_t>(row * 8 + group)];
    };
    const auto c_place = [&](int i) {
      const int row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
      return static_cast<size_t>(row * 8 + column);
    };
    LeftFragment left;
    RightFragment right;
    SumFragment sum;
    for (int i = 0; i < 4; ++i) left.at[i] = Pair(a_at(2 * i), a_at(2 * i + 1));
    for (int i = 0; i < 2; ++i) right.at[i] = Pair(b_at(2 * i), b_at(2 * i + 1));
    for (int i = 0; i < 4; ++i) sum[i] = c[c_place(i)];
    MultiplyAdd(left, right, sum);
    for (int i = 0; i < 4; ++i) got[c_place(i)] = sum[i];
  });
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float want = c[row * 8 + column];
      for (size_t k = 0; k < 16; ++k) want += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(got[row * 8 + column], want) << row << "," << column;
    }
  }
}

// ldmatrix: each row of a matrix is spread over four lanes, two elements each; with .trans each
// column is.
TEST(MmaTest, LoadedMatricesAreSpreadOverTheLanes) {
  alignas(16) static BF16 memory[4][8][8];
  for (int i = 0; i < 4 * 64; ++i) (&memory[0][0][0])[i] = {static_cast<uint16_t>(i)};
  RunWarp([&] {
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t rows[4], columns[4];
    LoadMatrices<false>(memory[lane / 8][lane % 8], rows);
    LoadMatrices<true>(memory[lane / 8][lane % 8], columns);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 2; ++j) {
        EXPECT_EQ(rows[i] >> (16 * j) & 0xffff, memory[i][lane / 4][lane % 4 * 2 + j].bits);
        EXPECT_EQ(columns[i] >> (16 * j) & 0xffff, memory[i][lane % 4 * 2 + j][lane / 4].bits);
      }
    }
  });
}

TEST(MmaTest, CopiesArriveWhenAwaited) {
  alignas(16) static float from[4] = {1, 2, 3, 4};
  alignas(16) static float to[kWarpSize][4];
  for (auto& row : to) std::fill(row, row + 4, -1.0f);
  RunWarp([&] {
    float* const own = to[threadIdx.x];
    CopyAsync<16>(own, from, threadIdx.x % 2 == 0);
    EXPECT_EQ(own[3], -1);
    AwaitCopies();
    EXPECT_EQ(own[3], threadIdx.x % 2 == 0 ? 4 : 0);
  });
}

}  // namespace
}  // namespace stretto::cuda
