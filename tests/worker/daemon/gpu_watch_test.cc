// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/gpu_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tests/worker/daemon/fake_nvml/fake_nvml.h"

namespace stretto::daemon {
namespace {

class GpuWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_nvml::state() = {};
    fake_nvml::state().gpus = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}};
    fake_nvml::state().at_reading = [this] { ++readings_; };
    nvml_ = *Nvml::Open(FAKE_NVML);
    watch_ = std::make_unique<GpuWatch>(nvml_, clock_);
  }
  void TearDown() override {
    watch_.reset();
    nvml_.reset();
    fake_nvml::state() = {};
  }

  std::string FaultOfB() { return watch_->Gpus()[1].fault; }
  // Asks again and again; the clock stands.
  bool WaitFor(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  FakeClock clock_;
  std::atomic<int> readings_{0};
  std::shared_ptr<Nvml> nvml_;
  std::unique_ptr<GpuWatch> watch_;
};

TEST_F(GpuWatchTest, ReadsAgainWhenAskedAfterAnInterval) {
  EXPECT_EQ(readings_, 1);
  fake_nvml::state().gpus[1].result = 15;

  clock_.Advance(GpuWatch::kInterval - absl::Nanoseconds(1));
  EXPECT_EQ(FaultOfB(), "");
  clock_.Advance(absl::Nanoseconds(1));

  EXPECT_TRUE(
      WaitFor([&] { return FaultOfB() == "lost: it does not answer on the bus any more"; }));
  EXPECT_EQ(watch_->Gpus()[0].fault, "");
  EXPECT_EQ(readings_, 2) << "a reading is not repeated within the interval";
}

TEST_F(GpuWatchTest, GpuThatComesBackIsHealthyAgain) {
  fake_nvml::state().gpus[1].result = 15;
  clock_.Advance(GpuWatch::kInterval);
  ASSERT_TRUE(WaitFor([&] { return !FaultOfB().empty(); }));

  fake_nvml::state().gpus[1].result = 0;
  clock_.Advance(GpuWatch::kInterval);

  EXPECT_TRUE(WaitFor([&] { return FaultOfB().empty(); }));
}

TEST_F(GpuWatchTest, DriverThatDoesNotAnswerHoldsNobodyUpAndIsAFault) {
  std::promise<void> answer, asked;
  fake_nvml::state().at_reading = [&, answered = answer.get_future().share()] {
    if (readings_++ == 1) asked.set_value();
    answered.wait();
  };
  clock_.Advance(GpuWatch::kInterval);
  EXPECT_EQ(FaultOfB(), "");
  asked.get_future().wait();

  clock_.Advance(GpuWatch::kPatience - absl::Nanoseconds(1));
  EXPECT_EQ(FaultOfB(), "");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(FaultOfB(), "NVML has not answered for 30s");
  EXPECT_EQ(watch_->Gpus()[0].fault, "NVML has not answered for 30s");

  answer.set_value();
  EXPECT_TRUE(WaitFor([&] { return FaultOfB().empty(); }));
}

TEST_F(GpuWatchTest, EndsThoughTheDriverHangsAndLeavesTheThreadToIt) {
  std::promise<void> answer, asked;
  fake_nvml::state().at_reading = [&, answered = answer.get_future().share()] {
    if (readings_++ == 1) asked.set_value();
    answered.wait();
  };
  clock_.Advance(GpuWatch::kInterval);
  watch_->Gpus();
  asked.get_future().wait();

  watch_.reset();  // returns

  EXPECT_EQ(nvml_.use_count(), 2) << "the thread is still in the driver";
  answer.set_value();
  EXPECT_TRUE(WaitFor([&] { return nvml_.use_count() == 1; }));
}

TEST(GpuWatchWithoutNvmlTest, HasNoGpus) {
  FakeClock clock;
  GpuWatch watch(nullptr, clock);
  clock.Advance(GpuWatch::kInterval);
  EXPECT_TRUE(watch.Gpus().empty());
}

}  // namespace
}  // namespace stretto::daemon
