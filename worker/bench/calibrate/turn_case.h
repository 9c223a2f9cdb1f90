// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a collective waits for its turn on a core that computes.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/bench/calibrate/collective_calls.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/exec/executor.h"

namespace stretto::bench {

// Whether a computation of `seconds` is better to release calls than one of `other`: the shortest
// of at least 5 ms is the best one, or else the longest.
bool ReleasesBetter(double seconds, double other);

// When a rank released its call and when the call had ended there, in seconds from one moment.
struct ReleasedCall {
  int group = -1;  // the first rank of the group; -1: this rank is in none
  double released = 0, ended = 0;
};

// Returns the time from the last release of a group to its last end, as the mean over groups.
double FromLastRelease(absl::Span<const ReleasedCall> ranks);

// Every rank calls each function together with the others. Errors: those of executors and of
// communicators.
class TurnCase {
 public:
  // Computations of `operation_seconds` follow one another. After 5 ms, the end of one of them
  // releases a collective of `call_seconds`, which all ranks agree on. Computations may differ
  // between ranks. `job` and `runner` must outlive the result.
  static absl::StatusOr<std::shared_ptr<const TurnCase>> Make(const KernelCase& timed,
                                                              double operation_seconds,
                                                              const CollectiveCase& collective,
                                                              double call_seconds, MeasuredJob& job,
                                                              CollectiveCalls& runner);

  // Returns how many times as long a call takes, from its release on the rank that releases it last
  // to its last end, as one of a row of calls that run alone. On all ranks the same. Ranks compare
  // times since they met, so it is as exact as they leave an exchange together.
  absl::StatusOr<std::vector<double>> Measure() const;

 private:
  TurnCase(MeasuredJob& job, CollectiveCalls& runner) : job_(job), runner_(runner) {}

  MeasuredJob& job_;
  CollectiveCalls& runner_;
  int group_ = -1;   // as in ReleasedCall
  int release_ = 0;  // the computation whose end releases the call
  std::unique_ptr<Executor> together_;
  std::unique_ptr<Executor> moving_;  // null on a rank that is not in the group
};

}  // namespace stretto::bench
