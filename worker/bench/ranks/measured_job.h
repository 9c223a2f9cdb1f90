// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job whose steps are measured: one process per rank, connected as the ranks of a job are.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/rank_device.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

struct StepTime {
  double seconds = 0;      // of the slowest rank
  double cpu_seconds = 0;  // of this process
};

// Of one rank. All ranks call each function together. Errors: those of RankDevice, of executors and
// of communicators.
class MeasuredJob {
 public:
  // `spec` decides the groups; engines may be of others with the same ones or fewer.
  static absl::StatusOr<std::unique_ptr<MeasuredJob>> Connect(const EngineSpec& spec,
                                                              const RankFlags& flags);

  Rank rank() const { return config_.rank; }
  Communicator& control() { return device_->control(); }
  // Returns the connections of the groups of `spec`.
  GroupLinks LinksOf(const EngineSpec& spec) const;
  Backend& backend() { return device_->backend(); }

  // Returns an engine with weights drawn from kSeed.
  absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Make(const EngineSpec& spec,
                                                            Variant variant);
  // Runs the first steps of training and returns their results.
  absl::StatusOr<std::vector<trainer::StepResult>> FirstSteps(trainer::RankEngine& engine);
  // Errors: Internal naming `what`, if a rank found other bits than its oracle.
  absl::Status ExpectBits(const std::string& what, const std::vector<trainer::StepResult>& oracle,
                          const std::vector<trainer::StepResult>& found);

  // Returns the largest of the ranks' values.
  absl::StatusOr<double> Slowest(double mine);
  // Runs a program once, on a link whose token bucket is drained.
  absl::StatusOr<StepTime> Step(trainer::RankEngine& engine);

 private:
  MeasuredJob() = default;

  trainer::JobConfig config_;  // outlives the device
  std::unique_ptr<trainer::RankDevice> device_;
};

}  // namespace stretto::bench
