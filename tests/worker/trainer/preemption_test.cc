// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/preemption.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/worker/test_files.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;

class PreemptionTest : public testing::Test {
 protected:
  void Thread(const std::string& id, const std::string& schedstat) {
    fs::create_directories(folder_ / id);
    Spill(folder_ / (id + "/schedstat"), schedstat);
  }
  TestFolder folder_;
};

TEST_F(PreemptionTest, TheThreadThatWaitedLongestCounts) {
  Thread("1", "9000000000 5000000000 7\n");
  Thread("2", "1 1000000000 1\n");
  PreemptionMeter meter(folder_.path());
  EXPECT_EQ(meter.Take().seconds, 0);
  Thread("1", "9000000000 5100000000 8\n");
  Thread("2", "1 1250000000 3\n");
  EXPECT_DOUBLE_EQ(*meter.Take().seconds, 0.25);
  EXPECT_EQ(meter.Take().seconds, 0);
}

TEST_F(PreemptionTest, ThreadsComeAndGo) {
  Thread("1", "0 1000000000 1\n");
  PreemptionMeter meter(folder_.path());
  Thread("2", "0 500000000 1\n");  // all of it since the call before
  EXPECT_DOUBLE_EQ(*meter.Take().seconds, 0.5);
  fs::remove_all(folder_ / "1");
  Thread("2", "0 100000000 1\n");  // another one of that number
  EXPECT_EQ(meter.Take().seconds, 0);
}

TEST_F(PreemptionTest, WhatTheKernelDoesNotSayIsNotZero) {
  PreemptionMeter meter(folder_ / "none");
  EXPECT_EQ(meter.Take().seconds, std::nullopt);
  Thread("1", "garbage\n");
  PreemptionMeter other(folder_.path());
  EXPECT_EQ(other.Take().seconds, std::nullopt);
}

TEST_F(PreemptionTest, ThisProcessHasNumbers) {
  PreemptionMeter meter;
  const Preempted lost = meter.Take();
  EXPECT_GE(lost.switches, 0);
  EXPECT_EQ(lost.seconds.has_value(), fs::exists("/proc/self/schedstat"));
}

}  // namespace
}  // namespace stretto::trainer
