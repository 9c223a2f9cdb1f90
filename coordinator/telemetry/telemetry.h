#pragma once
// The coordinator's metrics.
//
//   stretto_jobs{state}                      gauge      jobs now in each state
//   stretto_workers{state}                   gauge      workers now in each state
//   stretto_gpus{state}                      gauge      of READY workers: HEALTHY, FAULTY
//   stretto_job_queue_wait_seconds           histogram  from create to start, per started attempt
//   stretto_rpcs_total{method,code}          counter    finished calls
//   stretto_rpc_duration_seconds{method}     histogram  of finished calls; streams count as one
//   call stretto_build_info{version,protocol}     gauge      1
//
// Labels are bounded: states and codes are enums, methods those of our services.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace stretto::telemetry {

// State name ("RUNNING") to count. States with none are listed with 0, so that series do not
// vanish.
struct Counts {
  std::map<std::string, int> jobs;
  std::map<std::string, int> workers;
  std::map<std::string, int> gpus;
};

// Thread-safe.
class Telemetry {
 public:
  Telemetry();
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Called by Text. `counts` must stay callable until it is replaced
  // (an empty function is fine).
  void SetCounts(std::function<Counts()> counts);

  void QueueWaited(absl::Duration wait);
  // `method` is the full gRPC path or any fixed name, `code` an UPPER_SNAKE status code.
  void RpcEnded(const std::string& method, const std::string& code, absl::Duration duration);

  // What a scrape returns, in Prometheus's text format.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::telemetry
