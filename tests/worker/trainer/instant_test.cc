// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/instant.h"

#include <vector>

#include "gtest/gtest.h"

namespace stretto::trainer {
namespace {

// Reads clocks of which `steady` has these times one after the other; `raw` counts its readings.
Instant Read(const std::vector<int64_t>& times) {
  size_t steady = 0;
  int raw = 0;
  const Instant read =
      ReadAtOnce([&] { return times.at(steady++); }, [&] { return static_cast<double>(++raw); });
  EXPECT_EQ(steady, times.size());
  return read;
}

TEST(InstantTest, ClocksAreReadOnce) {
  const Instant read = Read({1000, 1050});

  EXPECT_EQ(read.steady, 1000);
  EXPECT_EQ(read.raw, 1);
}

TEST(InstantTest, WhoIsInterruptedBetweenThemReadsAgain) {
  const Instant read = Read({1000, 51000, 51100, 80000, 80100, 80150});

  EXPECT_EQ(read.steady, 80100);
  EXPECT_EQ(read.raw, 3);
}

TEST(InstantTest, OfSlowClocksTheClosestReadingsCount) {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < 10; ++i) {
    times.push_back(10000 * i);
    times.push_back(10000 * i + (i == 4 ? 2000 : 3000));
  }
  const Instant read = Read(times);

  EXPECT_EQ(read.steady, 40000);
  EXPECT_EQ(read.raw, 5);
}

TEST(InstantTest, TheSecondClockDoesNotGoBack) {
  int64_t reading = 0;
  const auto steady = [&] { return ++reading; };
  const Instant first = ReadClocks(steady), second = ReadClocks(steady);

  EXPECT_EQ(first.steady, 1);
  EXPECT_EQ(second.steady, 3);
  EXPECT_GE(second.raw, first.raw);
}

}  // namespace
}  // namespace stretto::trainer
