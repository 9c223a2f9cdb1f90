// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/link/watchdog.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "proto/base/clock.h"
#include "tests/worker/test_files.h"

namespace stretto::trainer {
namespace {

TEST(WatchdogTest, ShowsLifeAndEndsTheProcessWhenItsDaemonIsSilent) {
  TestFolder folder;
  FlightRecorder flight = FlightRecorder::Create(folder / "flight").value();
  DaemonLink link(folder / "no.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  link.CountSilence(absl::Seconds(25));
  std::promise<void> ended;
  const absl::Duration begin = Clock::Real().Monotonic();
  const Watchdog watchdog(flight, link, absl::Seconds(25), [&] { ended.set_value(); });
  ended.get_future().get();  // a second call would throw
  const FlightState state = ReadFlightRecord(folder / "flight").value();
  EXPECT_GT(state.pulse, begin);
  EXPECT_GT(state.cpu, absl::ZeroDuration());
  EXPECT_EQ(state.last_update, absl::ZeroDuration());
}

TEST(WatchdogTest, ShowsLifeAtOnce) {
  TestFolder folder;
  FlightRecorder flight = FlightRecorder::Create(folder / "flight").value();
  DaemonLink link(folder / "no.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  const Watchdog watchdog(flight, link, absl::InfiniteDuration(), nullptr);
  EXPECT_GT(ReadFlightRecord(folder / "flight").value().pulse, absl::ZeroDuration());
}

TEST(WatchdogTest, WithoutALimitItEndsNothing) {
  TestFolder folder;
  FlightRecorder flight = FlightRecorder::Create(folder / "flight").value();
  DaemonLink link(folder / "no.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  link.CountSilence(absl::Hours(1000));
  {
    const Watchdog watchdog(flight, link, absl::InfiniteDuration(), [] { FAIL(); });
    while (link.silence() == absl::Hours(1000)) std::this_thread::yield();  // until it looked
  }
}

}  // namespace
}  // namespace stretto::trainer
