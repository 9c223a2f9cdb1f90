// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/draw_weights.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace stretto::trainer {
namespace {

constexpr int64_t kBlock = 1 << 16;  // elements: up to a few milliseconds of work

// Calls work(begin, end) for blocks that cover [0, count), each once, on `threads` threads. Returns
// when all calls have.
void ForEachBlock(int64_t count, int threads, absl::FunctionRef<void(int64_t, int64_t)> work) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::atomic<int64_t> next{0};
  const auto take = [&] {
    for (int64_t block = next++; block < blocks; block = next++)
      work(block * kBlock, std::min(count, (block + 1) * kBlock));
  };
  std::vector<std::jthread> others;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, blocks); ++i) others.emplace_back(take);
  } catch (const std::system_error&) {
    // The system has no more threads; those that started do all the work.
  }
  take();
}

}  // namespace

int AllCores() { return std::max<int>(1, std::thread::hardware_concurrency()); }

void DrawWeights(const Parameter& parameter, uint64_t seed, int threads, float* values) {
  ForEachBlock(parameter.count(), threads, [&](int64_t begin, int64_t end) {
    Initialise(parameter, seed, begin, end, values);
  });
}

void RoundWeights(absl::Span<const float> values, int threads, BF16* rounded) {
  ForEachBlock(static_cast<int64_t>(values.size()), threads, [&](int64_t begin, int64_t end) {
    std::transform(values.data() + begin, values.data() + end, rounded + begin, ToBF16);
  });
}

}  // namespace stretto::trainer
