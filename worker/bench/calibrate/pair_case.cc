// SPDX-License-Identifier: Apache-2.0

// The two run in one program, on lanes of their own. In the same round each runs alone, so that a
// machine whose speed drifts does not count as contention.

#include "worker/bench/calibrate/pair_case.h"

#include <algorithm>
#include <cstddef>

#include "proto/base/status_macros.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/kernels/measure.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {

absl::StatusOr<std::shared_ptr<const PairCase>> PairCase::Make(const KernelCase& timed, int copies,
                                                               const CollectiveCase& collective,
                                                               int calls, MeasuredJob& job,
                                                               CollectiveCalls& runner) {
  std::shared_ptr<PairCase> pair(new PairCase(copies, calls, collective.ranks > 0, job, runner));
  const int sets = std::min(copies, CountFor(timed, kWorkingSet));
  ASSIGN_OR_RETURN(pair->together_,
                   runner.MakeBeside(timed, CopiesOf(timed, copies, sets), collective, calls));
  ASSIGN_OR_RETURN(pair->computing_,
                   MakeFilled(timed, CopiesOf(timed, copies, sets), {}, job.backend()));
  ASSIGN_OR_RETURN(pair->moving_, runner.Make(collective, calls));
  return pair;
}

absl::StatusOr<std::vector<double>> PairCase::Measure() const {
  RETURN_IF_ERROR(computing_->Run());
  ASSIGN_OR_RETURN(const double move, runner_.RunDrained(moving_.get()));
  RETURN_IF_ERROR(DrainLink(job_.control()));
  RETURN_IF_ERROR(together_->Run());
  std::vector<double> mine = {0, 0, 0};  // 1 if it takes part, and both ratios
  if (takes_part_) {
    const Progress progress =
        ProgressOf(together_->intervals(), static_cast<size_t>(copies_),
                   SpanSeconds(computing_->intervals()) / copies_, move / calls_);
    mine = {1, progress.compute_slowdown(), progress.communication_slowdown()};
  }
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(job_.control(), mine));
  std::vector<double> sum = {0, 0, 0};
  for (const std::vector<double>& rank : all) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += rank[i];
  }
  return std::vector<double>{sum[1] / sum[0], sum[2] / sum[0]};
}

}  // namespace stretto::bench
