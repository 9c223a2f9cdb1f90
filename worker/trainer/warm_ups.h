// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the warm-ups of a pipeline where the job leaves them to its ranks (auto_warm_up): those
// of the rule of slack (worker/engine/schedule/pipeline/slack.h), by times that the ranks measure
// on the job's own model and links, as far as memory allows. Warm-ups change no bit of a result, so
// a run that resumes chooses them anew.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/data/sampler.h"
#include "worker/engine/schedule/pipeline/slack.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// What a rank sees of a micro-batch.
struct PassTimes {
  StageSeconds stage;  // computation and exposed tensor-parallel collectives
  // Until the rank has what the stage before sends forward, and what the next one sends back, both
  // from when it could be sent. 0 where there is no such stage.
  BoundarySeconds received;
};

// Measures the passes of one micro-batch without transfers, and then transfers without passes: all
// that stages send each other in both directions, at once. `training` has the links of the step
// program's groups, and `control` connects all ranks, which call this together. Times are medians
// of a few runs. Nothing but the result remains. Errors: those of RankEngine::Create, of the
// executor and of the data.
absl::StatusOr<PassTimes> MeasurePasses(const JobConfig& config, const Sampler& sampler,
                                        const GroupLinks& training, Communicator& control,
                                        Backend& backend);

// Returns SlackWarmUps of the times of all ranks, by rank, and logs the times: a stage is as slow
// as its slowest rank, and so is the way to it.
std::vector<int> WarmUpsBy(const EngineSpec& spec, const std::vector<PassTimes>& ranks);

// Returns `warm_ups` with as many micro-batches beyond those of 1f1b (WithAtMost) as fit into
// `available` bytes on this rank's node. Errors: those of ArenasOf.
absl::StatusOr<int> MostExtraWarmUps(const std::vector<int>& warm_ups, int64_t available,
                                     JobConfig config);

// Settles config's warm-ups for all ranks, which call this together: WarmUpsBy of what they have
// measured, with the least of their MostExtraWarmUps. Errors: Internal (a rank sent what is no
// number), those of MostExtraWarmUps and of the communicator.
absl::Status AgreeOnWarmUps(const PassTimes& mine, int64_t available, Communicator& control,
                            JobConfig* config);

}  // namespace stretto::trainer
