// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sums and latest values of one rank's reports, for the metrics.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/metrics/families.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::daemon {

// Not thread-safe. Each report must be added once, in order.
class RankSeries {
 public:
  RankSeries();
  void Add(const stretto::v1alpha1::RankPrepared& prepared);
  void Add(const stretto::v1alpha1::StepReport& step);
  // Called before the report of its step, or later if it was asynchronous.
  void Add(const stretto::v1alpha1::CheckpointReport& checkpoint);
  void Add(const stretto::v1alpha1::RankExit& exit);

  // Adds the rank's samples of kMetrics.
  void Show(const std::string& job, int32_t rank, metrics::Families* families) const;

 private:
  using LedgerKey = std::tuple<std::string, std::string, std::string>;  // part, group, phase
  void ShowSteps(const std::vector<std::string>& labels, metrics::Families* families) const;
  void ShowCheckpoints(const std::vector<std::string>& labels, metrics::Families* families) const;

  metrics::Histogram step_seconds_;
  double tokens_ = 0, model_flops_ = 0, skipped_ = 0;
  double loss_ = 0, grad_norm_ = 0;           // of the last step
  stretto::v1alpha1::Evaluation evaluation_;  // the last
  bool evaluated_ = false;
  double evaluation_seconds_ = 0;
  double last_step_ = 0;  // seconds since 1970
  std::map<LedgerKey, double> ledger_;
  double communication_ = 0, hidden_ = 0, switches_ = 0;
  std::optional<double> preempted_;  // nothing: the kernel does not say
  std::map<std::string, double> arenas_;
  double peak_flops_ = 0;  // 0: unknown
  double checkpoint_ = 0;  // seconds since 1970; 0: none yet
  double checkpoints_ = 0, checkpoints_failed_ = 0, checkpoint_seconds_ = 0, checkpoint_bytes_ = 0;
  int64_t saved_step_ = 0;  // a complete checkpoint includes this step and all before
  // The steps after it, oldest first, with their seconds. Beyond kMostUnsaved, the oldest two are
  // counted as one.
  std::deque<std::pair<int64_t, double>> unsaved_;
  double lost_ = 0;
};

}  // namespace stretto::daemon
