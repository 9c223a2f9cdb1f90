// SPDX-License-Identifier: Apache-2.0

// Calls in several threads at once give the bits of one thread.
#include <thread>

#include "tests/kernels/batch.h"

namespace stretto {
namespace {

using ThreadsTest = OpsTest;
STRETTO_ALL_MODES(ThreadsTest);

TEST_P(ThreadsTest, TwoThreadsGiveTheBitsOfOne) {
  std::vector<Batch> alone, together;
  for (uint32_t seed = 0; seed < 2; ++seed) {
    alone.emplace_back(GetParam().dtype, seed);
    together.emplace_back(GetParam().dtype, seed);
  }
  const auto run = [&](Batch& batch) {
    batch.Run(*ops_, 0, Batch::kSequences);
    batch.RunWeightGradient(*ops_);
  };
  for (Batch& batch : alone) run(batch);
  std::thread first([&] { run(together[0]); });
  std::thread second([&] { run(together[1]); });
  first.join();
  second.join();
  EXPECT_EQ(alone[0].Bits(), together[0].Bits());
  EXPECT_EQ(alone[1].Bits(), together[1].Bits());
  EXPECT_NE(alone[0].Bits(), alone[1].Bits());
}

}  // namespace
}  // namespace stretto
