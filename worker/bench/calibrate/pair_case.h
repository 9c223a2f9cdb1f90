// SPDX-License-Identifier: Apache-2.0
#pragma once
// A computation and a collective, measured alone and at once.

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
class PairCase {
 public:
  // Makes `copies` of a computation and `calls` of a collective, which takes part in it if it has
  // ranks. `job` and `runner` must outlive the result.
  static absl::StatusOr<std::shared_ptr<const PairCase>> Make(const KernelCase& timed, int copies,
                                                              const CollectiveCase& collective,
                                                              int calls, MeasuredJob& job,
                                                              CollectiveCalls& runner);

  // Returns how many times as long the computation takes beside the collective, and the collective
  // beside the computation: the mean of the ranks that have both. On all ranks the same.
  absl::StatusOr<std::vector<double>> Measure() const;

 private:
  PairCase(int copies, int calls, bool takes_part, MeasuredJob& job, CollectiveCalls& runner)
      : copies_(copies), calls_(calls), takes_part_(takes_part), job_(job), runner_(runner) {}

  const int copies_, calls_;
  const bool takes_part_;
  MeasuredJob& job_;
  CollectiveCalls& runner_;
  std::unique_ptr<Executor> together_, computing_;
  std::unique_ptr<Executor> moving_;  // null on a rank that is not in the group
};

}  // namespace stretto::bench
