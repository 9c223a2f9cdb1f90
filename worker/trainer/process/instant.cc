// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/instant.h"

#include <time.h>

#include <limits>

#include "proto/base/clock.h"

namespace stretto::trainer {
namespace {

constexpr int kMostReadings = 10;
// Three readings take a tenth of it.
constexpr int64_t kUninterrupted = 500;  // nanoseconds

double RawSeconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

Instant ReadAtOnce(absl::FunctionRef<int64_t()> steady, absl::FunctionRef<double()> raw) {
  Instant closest;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kMostReadings && least > kUninterrupted; ++i) {
    Instant read{.steady = steady(), .raw = raw(), .wall = {}};
    const int64_t took = steady() - read.steady;
    if (took >= least) continue;
    least = took;
    read.wall = Clock::Real().Now();
    closest = read;
  }
  return closest;
}

Instant ReadClocks(absl::FunctionRef<int64_t()> steady) { return ReadAtOnce(steady, RawSeconds); }

}  // namespace stretto::trainer
