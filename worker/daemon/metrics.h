#pragma once
// What the worker daemon shows Prometheus. Every name is here; dashboards and alerts use no other.
//
//   name                                    type       labels
//   stretto_step_seconds                        histogram  of a rank     1 ms to 10 min
//   stretto_last_step_timestamp_seconds         gauge      of a rank     when it ended
//   stretto_steps_total                         counter    of a rank
//   stretto_tokens_total                        counter    of a rank     of the whole job
//   stretto_updates_skipped_total               counter    of a rank     norm was not finite
//   stretto_loss                                gauge      of a rank     of the last step
//   stretto_grad_norm                           gauge      of a rank     of the last step
//   stretto_step_ledger_seconds_total           counter    of a rank, part, group, phase
//   stretto_communication_seconds_total         counter    of a rank     |M|
//   stretto_communication_hidden_seconds_total  counter    of a rank     |C and M|
//   stretto_checkpoint_timestamp_seconds        gauge      of rank 0     of the last that is
//   complete stretto_checkpoints_failed_total            counter    of rank 0 stretto_trainers
//   gauge      -             alive on this node stretto_coordinator_connected               gauge
//   -             1 or 0 stretto_build_info                          gauge      version, worker
//   always 1 stretto_gpu_healthy                         gauge      gpu, uuid     1 or 0
//   stretto_gpu_memory_bytes                    gauge      gpu, uuid
//   stretto_gpu_memory_used_bytes               gauge      gpu, uuid     by all processes
//   stretto_gpu_ecc_uncorrected_total           counter    gpu, uuid     since the driver came up
//   stretto_gpu_xid_errors_total                counter    gpu, uuid     since this daemon began
//
// Those of a rank have training_job and rank; `job` is Prometheus's own label of a target.
// `part` is compute_hiding, compute_alone, exposed, data_wait, checkpoint_wait or idle (DESIGN
// section 6). Counters start at what the rank's report log holds, so a restarted daemon goes on
// where it was. The series of a rank go away `retention` after its exit.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/nvml.h"

namespace stretto::daemon {

// Thread-safe.
class Metrics {
 public:
  struct Options {
    std::string worker;
    absl::Duration retention = absl::Minutes(5);
    std::function<std::vector<Gpu>()> gpus = nullptr;  // asked at every scrape, if given
  };
  // `clock` is borrowed and outlives this.
  Metrics(Options options, const Clock& clock);
  ~Metrics();

  // Counts one report. The caller delivers each report of a rank once and in order.
  void Record(const stretto::v1alpha1::RankReport& report);
  void SetTrainers(int alive);
  void SetConnected(bool connected);

  // Everything in Prometheus' text format; drops expired series first.
  std::string Text();

 private:
  class Collector;
  struct Series;
  using SeriesKey = std::pair<std::string, int32_t>;  // job id, rank

  void ExpireLocked();

  const Options options_;
  const Clock& clock_;
  std::mutex mu_;
  std::map<SeriesKey, Series> series_;
  int trainers_ = 0;
  bool connected_ = false;
  std::unique_ptr<Collector> collector_;
};

}  // namespace stretto::daemon
