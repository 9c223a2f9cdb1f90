// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time of a core, in seconds of the machine on which bounds of tests were set. A slower machine, or
// one whose memory others use, takes longer for a yardstick as well: a fixed amount of the kind of
// work that is bounded, which is small pieces of memory that are allocated, sorted and found again.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <vector>

namespace stretto {

// Of this process's time on a core, so that others on the machine matter less.
inline double SecondsSince(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// The bound of what plans a large step.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr double kBoundSeconds = 60;  // unoptimised, every access checked
#else
constexpr double kBoundSeconds = 2;
#endif

// How many times as long as on that machine the yardstick takes now; at least 1.
inline double Slowness() {
  constexpr double kThere = 0.1;  // s, docs/TESTING.md "Bounds on time"
  constexpr int kPieces = 100'000;
  const std::clock_t start = std::clock();
  uint64_t state = 1, found = 0;
  const auto next = [&state] {
    return state = state * 6364136223846793005U + 1442695040888963407U;
  };
  std::map<uint64_t, std::vector<int>> pieces;
  for (int i = 0; i < kPieces; ++i) pieces[next() >> 20].assign(16, i);
  std::vector<uint64_t> keys;
  for (const auto& [key, piece] : pieces) keys.push_back(key * static_cast<uint64_t>(piece[0] | 1));
  std::sort(keys.begin(), keys.end());
  state = 1;
  for (int i = 0; i < kPieces; ++i) found += pieces.at(next() >> 20).size();
  // The last term, which is 0, keeps the work from being left out.
  return std::max(1.0, SecondsSince(start) / kThere) + (found + keys[0] == 0 ? 1 : 0);
}

// Runs `work` until it is within `bound`, three times at most, and returns the least time.
template <class Work>
double ReferenceSeconds(double bound, const Work& work) {
  double least = 0;
  for (int run = 0; run < 3 && (run == 0 || least >= bound); ++run) {
    const double before = Slowness();
    const std::clock_t start = std::clock();
    work();
    const double seconds = SecondsSince(start);
    const double taken = seconds / ((before + Slowness()) / 2);
    least = run == 0 ? taken : std::min(least, taken);
  }
  return least;
}

}  // namespace stretto
