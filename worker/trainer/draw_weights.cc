// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/draw_weights.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace stretto::trainer {
namespace {

constexpr int64_t kBlock = 1 << 16;  // elements; a few milliseconds of work

}  // namespace

int AllCores() { return std::max<int>(1, std::thread::hardware_concurrency()); }

void DrawWeights(const Parameter& parameter, uint64_t seed, int threads, float* values) {
  const int64_t count = parameter.count(), blocks = (count + kBlock - 1) / kBlock;
  std::atomic<int64_t> next{0};
  const auto draw = [&] {
    for (int64_t block = next++; block < blocks; block = next++) {
      Initialise(parameter, seed, block * kBlock, std::min(count, (block + 1) * kBlock), values);
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, blocks); ++i) others.emplace_back(draw);
  } catch (const std::system_error&) {
    // The system has no more threads; those that started draw everything.
  }
  draw();
}

}  // namespace stretto::trainer
