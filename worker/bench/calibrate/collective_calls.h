// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs collectives in sequence, alone or beside computations.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/kernels/measure.h"
#include "worker/bench/ranks/measured_job.h"

namespace stretto::bench {

// How long one repeat of a collective lasts at least, if that many calls suffice.
inline constexpr double kLeastCollectiveSeconds = 0.05;

// Returns how many calls of `seconds` each take `least` seconds: 2 to `most`.
int CallsFor(double seconds, double least, int most);

// Every rank calls each function together with the others. Errors: those of executors and of
// communicators.
class CollectiveCalls {
 public:
  // `job` has `world_size` ranks and must outlive this.
  CollectiveCalls(MeasuredJob& job, int world_size) : job_(job), world_size_(world_size) {}

  // Returns an executor of `calls`; null on a rank that is not in the group.
  absl::StatusOr<std::unique_ptr<Executor>> Make(const CollectiveCase& collective, int calls);
  // Returns one of the calls beside computations, which are alone on a rank that is not in the
  // group.
  absl::StatusOr<std::unique_ptr<Executor>> MakeBeside(const KernelCase& timed,
                                                       CaseCopies computations,
                                                       const CollectiveCase& collective, int calls);
  // The same with a call before the computations, and one that computation `release` releases.
  absl::StatusOr<std::unique_ptr<Executor>> MakeReleased(const KernelCase& timed,
                                                         CaseCopies computations,
                                                         const CollectiveCase& collective,
                                                         int release);

  // Returns the seconds of an executor, which may be null, on the slowest rank.
  absl::StatusOr<double> Run(Executor* executor);
  // The same without what other ranks wait for the last one to begin.
  absl::StatusOr<double> RunFromLast(Executor* executor);
  // The same as Run on a link whose token bucket was drained.
  absl::StatusOr<double> RunDrained(Executor* executor);

 private:
  absl::StatusOr<std::unique_ptr<Executor>> MakeOf(const KernelCase& timed, CaseCopies operations);

  MeasuredJob& job_;
  const int world_size_;
};

}  // namespace stretto::bench
