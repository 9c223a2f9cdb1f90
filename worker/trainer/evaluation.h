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

// Not thread-safe. All ranks make and use theirs together.
class Evaluation {
 public:
  // `held_out` gives its samples in the order of the data. Works in the weights and the activations
  // of `training`, for which its plan has room (MakeRoomForEvaluation). All is borrowed. Errors:
  // those of RankEngine::CreateEvaluation.
  static absl::StatusOr<std::unique_ptr<Evaluation>> Create(const JobConfig& config,
                                                            const Sampler& held_out,
                                                            RankEngine& training, GroupLink tp,
                                                            Communicator& control, Backend& backend,
                                                            OnBegin on_begin);

  // Mean over tokens() of the loss of the first batches of the data, without dropout, added in
  // (batch, token) order in f64: rank 0's on every rank. Nothing when `stop`, which all ranks
  // answer alike, said so before a batch. Errors: those of `stop`, Sampler::ReadBatch,
  // Executor::Run and Communicator.
  using Stop = absl::FunctionRef<absl::StatusOr<bool>()>;
  absl::StatusOr<std::optional<double>> MeanLoss(Stop stop);

  int64_t tokens() const;

 private:
  Evaluation(const JobConfig& config, const Sampler& held_out, Communicator& control,
             std::unique_ptr<RankEngine> engine);

  const JobConfig& config_;
  const Sampler& held_out_;
  Communicator& control_;
  const std::unique_ptr<RankEngine> engine_;
};

}  // namespace stretto::trainer
