// SPDX-License-Identifier: Apache-2.0
#pragma once
// The metrics of the worker daemon: the rows of metric_table.h.
//
// Counters of a rank start at the values in its report log, so a restarted daemon continues where
// the old one stopped. The series of a rank expire `retention` after its exit.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/tls/files.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/nvml.h"
#include "worker/daemon/trainer_memory.h"

namespace stretto::daemon {

// Thread-safe.
class Metrics {
 public:
  struct Options {
    std::string worker;
    absl::Duration retention = absl::Minutes(5);
    // Called at every scrape, if given.
    std::function<std::vector<Gpu>()> gpus = nullptr;
    std::function<std::vector<TrainerMemory>()> trainers = nullptr;
    std::function<std::vector<tls::Lifetime>()> certificates = nullptr;
  };
  // `clock` is borrowed and must outlive this.
  Metrics(Options options, const Clock& clock);
  ~Metrics();

  // Counts one report. The caller delivers each report of a rank once and in order.
  void Record(const stretto::v1alpha1::RankReport& report);
  void SetTrainers(int alive);
  void SetConnected(bool connected);

  // Returns all metrics in Prometheus's text format; drops expired series first.
  std::string Text();

 private:
  class Collector;
  struct Series;
  using SeriesKey = std::pair<std::string, int32_t>;  // job id, rank

  void ExpireLocked() REQUIRES(mu_);

  const Options options_;
  const Clock& clock_;
  Mutex mu_;
  std::map<SeriesKey, Series> series_ GUARDED_BY(mu_);
  int alive_ GUARDED_BY(mu_) = 0;
  bool connected_ GUARDED_BY(mu_) = false;
  std::unique_ptr<Collector> collector_;
};

}  // namespace stretto::daemon
