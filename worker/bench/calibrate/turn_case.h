// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a collective waits for its turn on a core that computes.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/calibrate/collective_calls.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/exec/executor.h"

namespace stretto::bench {

// Every rank calls each function together with the others. Errors: those of executors and of
// communicators.
class TurnCase {
 public:
  // Computations of `operation_seconds` follow one another, and the end of some of them releases a
  // collective of `call_seconds`. `job` and `runner` must outlive the result. All ranks agree on
  // both times.
  static absl::StatusOr<std::shared_ptr<const TurnCase>> Make(const KernelCase& timed,
                                                              double operation_seconds,
                                                              const CollectiveCase& collective,
                                                              double call_seconds, MeasuredJob& job,
                                                              CollectiveCalls& runner);

  // Returns how many times as long a call takes, from its release on the rank that releases it
  // last, as one of a row of calls that run alone. On all ranks the same.
  absl::StatusOr<std::vector<double>> Measure() const;

 private:
  TurnCase(MeasuredJob& job, CollectiveCalls& runner) : job_(job), runner_(runner) {}

  MeasuredJob& job_;
  CollectiveCalls& runner_;
  std::vector<int> releases_;  // by call, the computation whose end releases it
  int computations_ = 0;
  bool takes_part_ = false;
  std::unique_ptr<Executor> together_;
  std::unique_ptr<Executor> moving_;  // null on a rank that is not in the group
};

}  // namespace stretto::bench
