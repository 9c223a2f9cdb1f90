// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a step of a pipeline is made of, each part measured without the others.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/bench/common/rounds.h"
#include "worker/bench/options/pipeline_options.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/schedule/pipeline/slack.h"

namespace stretto::bench {

// Medians over the rounds so far, the same on all ranks.
struct PipelineParts {
  double forward_seconds = 0;   // of a micro-batch, in the slowest stage
  double backward_seconds = 0;  // the same
  double transfer_seconds = 0;  // of a micro-batch, alone, on a link whose bucket was drained
  std::map<Spread, std::vector<CostTable>> tables;  // of each rank
  std::vector<StageSeconds> seconds;  // by rank, without `delayed`, of the first spread
};

// Every rank calls each function together with the others. Errors: those of executors and of
// communicators.
class PartsMeasurement {
 public:
  // `job` and `options` must outlive the measurement.
  static absl::StatusOr<std::unique_ptr<PartsMeasurement>> Create(const PipelineOptions& options,
                                                                  MeasuredJob& job);
  // Returns the computations alone, one of each spread. The first one measures transfers too; they
  // are too short to tell whether the machine was disturbed.
  std::vector<TimedProgram> Programs();
  absl::StatusOr<PipelineParts> Medians();

 private:
  // What this rank takes for its computations.
  struct Computation {
    double forward = 0, backward = 0;  // of all micro-batches
    double total = 0;                  // and of the optimizer
    double slowest = 0;                // the total of the slowest rank
    std::string table;                 // as CostTable::Parse reads it
  };

  PartsMeasurement(const PipelineOptions& options, MeasuredJob& job)
      : options_(options), job_(job) {}

  // The program without communication.
  struct Computed {
    std::unique_ptr<trainer::RankEngine> engine;
    std::vector<Computation> rounds;  // of this rank
  };

  static absl::StatusOr<Computation> Run(trainer::RankEngine& engine);
  // That of the fewest chunks.
  Computed& first() { return computed_.begin()->second; }
  absl::Status MeasureComputation(Computed* computed);
  absl::Status MeasureTransfer();
  int64_t TransferCount() const;

  const PipelineOptions& options_;
  MeasuredJob& job_;
  std::map<Spread, Computed> computed_;
  std::vector<float> payload_;     // of a transfer
  std::vector<double> transfers_;  // seconds on this rank, by round; 0 on ranks of other stages
};

}  // namespace stretto::bench
