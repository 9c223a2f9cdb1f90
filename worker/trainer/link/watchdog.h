// SPDX-License-Identifier: Apache-2.0
#pragma once
// A thread that shows that this process runs, whatever its other threads wait for, and ends it when
// its daemon has been silent for too long.

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "worker/report/flight_record.h"
#include "worker/trainer/link/daemon_link.h"

namespace stretto::trainer {

class Watchdog {
 public:
  // Borrows the recorder and the link. When the link has been silent for longer than `limit`, it
  // calls `end` once.
  Watchdog(FlightRecorder& flight, DaemonLink& link, absl::Duration limit,
           std::function<void()> end);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();

  FlightRecorder& flight_;
  DaemonLink& link_;
  const absl::Duration limit_;
  std::function<void()> end_;
  Mutex mu_;
  CondVar stopping_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::trainer
