#pragma once
// Trains: step after step until the last one, a stop request or a failure.

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/control.h"
#include "worker/trainer/data/sampler.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/report/flight_record.h"
#include "worker/trainer/reporter.h"
#include "worker/trainer/trace_recorder.h"

namespace stretto::trainer {

// Where training stands.
struct TrainState {
  int64_t step = 0;     // finished
  int64_t updates = 0;  // optimizer updates: steps less those whose update was skipped
  int64_t consumed_samples = 0;
};

// What the loop works with; all borrowed.
struct TrainContext {
  const JobConfig& config;
  const Sampler& sampler;
  RankEngine& engine;
  Communicator& control;
  Reporter& reporter;
  FlightRecorder& flight;
  TraceRecorder& trace;
  const DaemonLink& link;
  absl::Duration lease;  // of the daemon
  std::string tokenizer_hash;
  // Set by the signal thread: stop at the next step.
  const std::atomic<bool>& terminate;
};

// How training ended. Completed, Cancelled, or a failure with a status.
struct TrainResult {
  TrainState state;
  // Completed, Cancelled, DaemonLost, NonFiniteGradients, PeerLost, DataInvalid, DeviceFailed
  std::string reason;
  absl::Status status;  // ok for Completed and Cancelled
};

TrainResult Train(const TrainContext& context, TrainState state);

// Opens the checkpoint that the config asks for, if any: the same on every rank. Errors: DataLoss,
// FailedPrecondition (no checkpoint), naming file or field.
absl::StatusOr<std::optional<Checkpoint>> FindCheckpoint(const JobConfig& config,
                                                         Communicator& control);

// Loads the checkpoint. Errors: DataLoss, FailedPrecondition (of another model, layout or
// tokenizer), naming file or field.
absl::StatusOr<TrainState> Resume(const JobConfig& config, const std::string& tokenizer_hash,
                                  const Checkpoint& checkpoint, RankEngine& engine);

}  // namespace stretto::trainer
