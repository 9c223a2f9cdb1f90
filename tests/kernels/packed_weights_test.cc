// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed_weights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

namespace stretto::cpu {
namespace {

constexpr size_t kBytes = 4096;

class PackedWeightsTest : public testing::Test {
 protected:
  // The form of the weight at `weight`, filled with the number of this packing.
  PackedWeights::Lease Get(const char* weight, size_t bytes = kBytes, int64_t n = 1) {
    return packed_.Get({weight, {.n = n}}, bytes,
                       [&](void* memory) { std::memset(memory, ++packings_, bytes); });
  }

  PackedWeights packed_;
  std::atomic<int> packings_ = 0;
  char weights_[8] = {};
};

TEST_F(PackedWeightsTest, AFormIsPackedOnceUntilItsWeightChanges) {
  const void* const first = Get(weights_).data();
  EXPECT_EQ(Get(weights_).data(), first);
  EXPECT_EQ(packings_, 1);
  packed_.Changed();
  EXPECT_EQ(Get(weights_).data(), first);
  EXPECT_EQ(packings_, 2);
}

TEST_F(PackedWeightsTest, FormsOfOneWeightAndWeightsOfOneFormAreApart) {
  const void* const first = Get(weights_, kBytes, 1).data();
  EXPECT_NE(Get(weights_, kBytes, 2).data(), first);
  EXPECT_NE(Get(weights_ + 1, kBytes, 1).data(), first);
  EXPECT_EQ(packings_, 3);
}

TEST_F(PackedWeightsTest, OnlyWeightsInTheRangeChange) {
  for (int i = 0; i < 4; ++i) Get(weights_ + i);
  packed_.Changed(weights_ + 1, 2);
  Get(weights_ + 0);
  Get(weights_ + 3);
  EXPECT_EQ(packings_, 4);
  Get(weights_ + 1);
  Get(weights_ + 2);
  EXPECT_EQ(packings_, 6);
}

// Executors come and go, each with weights at addresses of its own.
TEST_F(PackedWeightsTest, NewAddressesUseTheMemoryOfChangedForms) {
  const void* const first = Get(weights_).data();
  packed_.Changed();
  EXPECT_NE(Get(weights_ + 1, 2 * kBytes).data(), first);
  for (int i = 2; i < 8; ++i) {
    EXPECT_EQ(Get(weights_ + i).data(), first);
    packed_.Changed();
  }
}

TEST_F(PackedWeightsTest, AFormInUseIsNeitherOverwrittenNorGivenAway) {
  const PackedWeights::Lease lease = Get(weights_);
  packed_.Changed();  // by another executor
  EXPECT_NE(Get(weights_ + 1).data(), lease.data());
  EXPECT_EQ(Get(weights_).data(), lease.data());
  EXPECT_EQ(packings_, 2);
  EXPECT_EQ(*static_cast<const char*>(lease.data()), 1);
}

TEST_F(PackedWeightsTest, AFormBeingPackedIsNotGivenAway) {
  const void* inner = nullptr;
  const PackedWeights::Lease outer = packed_.Get({weights_, {}}, kBytes, [&](void* memory) {
    inner = Get(weights_ + 1).data();
    EXPECT_NE(inner, memory);
  });
  EXPECT_NE(inner, outer.data());
}

TEST_F(PackedWeightsTest, ThreadsThatWantTheSameFormPackItOnce) {
  constexpr size_t kMany = size_t{1} << 22;  // takes long enough for the others to arrive
  for (int round = 0; round < 50; ++round) {
    const int before = packings_;
    std::barrier start(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        const PackedWeights::Lease lease = Get(weights_, kMany);
        EXPECT_EQ(static_cast<const char*>(lease.data())[kMany - 1], before + 1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(packings_, before + 1);
    packed_.Changed();
  }
}

}  // namespace
}  // namespace stretto::cpu
