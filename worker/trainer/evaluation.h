// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loss of a job on held-out data, measured between its steps.

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/data/sampler.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Not thread-safe. All ranks create and call their evaluations together.
class Evaluation {
 public:
  // `held_out` returns its samples in the order of the data. The evaluation uses the weights and
  // the activations of `training`, whose plan must have room for it (MakeRoomForEvaluation).
  // Everything is borrowed. Errors: those of RankEngine::CreateEvaluation, and those of
  // Sampler::CountTargets (marked by OfData).
  static absl::StatusOr<std::unique_ptr<Evaluation>> Create(const JobConfig& config,
                                                            const Sampler& held_out,
                                                            RankEngine& training, GroupLinks links,
                                                            Communicator& control, Backend& backend,
                                                            OnBegin on_begin);

  // Returns the mean loss over tokens() of the first batches of the data, without dropout: f64 sums
  // of batches, added in their order. All ranks return the same bits. Returns nothing if `stop`,
  // which has the same result on all ranks, returned true before a run. Errors: those of `stop`,
  // Sampler::ReadBatch (marked by OfData), Executor::Run and Communicator.
  using Stop = absl::FunctionRef<absl::StatusOr<bool>()>;
  absl::StatusOr<std::optional<double>> MeanLoss(Stop stop);

  // The number of tokens that are measured; of masked data those that are trained on.
  int64_t tokens() const { return targets_; }
  const RankEngine& engine() const { return *engine_; }

 private:
  Evaluation(const JobConfig& config, const Sampler& held_out, int64_t targets,
             Communicator& control, std::unique_ptr<RankEngine> engine);

  const JobConfig& config_;
  const Sampler& held_out_;
  const int64_t targets_;
  Communicator& control_;
  const std::unique_ptr<RankEngine> engine_;
};

}  // namespace stretto::trainer
