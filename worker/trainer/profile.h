// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures, on the job's own model, ranks and link, the times by which a schedule is judged (DESIGN
// section 6), after proving that the schedule computes the same results as its serial oracle.

#include <vector>

#include "absl/status/statusor.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/comm/communicator.h"
#include "worker/data/sampler.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/reporter.h"

namespace stretto::trainer {

// Measures a profile. `training` has the links of the step program's groups (paced, if
// they are emulated), and `control` connects all ranks. Every rank calls this together; the times
// are medians over config.profile_steps steps, each that of the slowest rank. Without
// verified_parity the profile has no times. Nothing but the result remains. Errors: those of the
// executor and of the data.
absl::StatusOr<v1alpha1::Profile> MeasureProfile(const JobConfig& config, const Sampler& sampler,
                                                 const GroupLinks& training, Communicator& control,
                                                 Backend& backend);

// Does that, logs the result, and reports it from rank 0. Errors also: Internal, parity failed.
absl::Status ProfileAndReport(const JobConfig& config, const Sampler& sampler,
                              const GroupLinks& training, Communicator& control, Backend& backend,
                              Reporter& reporter);

// Writes the host's inputs of a step: the batch, the keys of its random draws and the optimizer's
// scalars. Returns the number of targets of the step, those of all replicas, over which its loss is
// a mean; masked ones do not count. Errors: those of Sampler::ReadBatch.
absl::StatusOr<int64_t> FillStep(const JobConfig& config, const Sampler& sampler, int64_t consumed,
                                 int64_t step, int64_t updates, RankEngine& engine);

// Returns the median of at least one value; of an even number the higher of the two in the middle.
double Median(std::vector<double> values);

}  // namespace stretto::trainer
