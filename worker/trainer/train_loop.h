// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains: runs step after step until the last one, a stop request or a failure.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "proto/base/exit_reason.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/data/sampler.h"
#include "worker/report/flight_record.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/evaluation.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/reporter.h"
#include "worker/trainer/trace_recorder.h"

namespace stretto::trainer {

// The progress of training.
struct TrainState {
  int64_t step = 0;     // steps completed
  int64_t updates = 0;  // optimizer updates: steps less those whose update was skipped
  int64_t consumed_samples = 0;
  // Whether training continues its checkpoint bit by bit; not under another layout.
  bool exact = true;
  HeldOutState held_out = {};
  std::optional<ParentState> parent = {};  // the checkpoint that it resumed from
};

// The functions of worker/checkpoint/checkpoint.h that write; tests replace them.
struct CheckpointFiles {
  std::function<decltype(WriteShard)> write = WriteShard;
  std::function<decltype(Commit)> commit = Commit;
};

// The objects that the loop uses; all are borrowed.
struct TrainContext {
  const JobConfig& config;
  const Sampler& sampler;
  RankEngine& engine;
  Evaluation* evaluation;  // null: none
  Communicator& control;
  Reporter& reporter;
  FlightRecorder& flight;
  TraceRecorder& trace;
  const DaemonLink& link;
  absl::Duration lease;  // of the daemon
  std::string tokenizer_hash;
  std::vector<Attachment> attachments = {};  // of its checkpoints; rank 0
  // Room for the state, from which checkpoints are written while training continues. Null on all
  // ranks: it waits.
  Snapshot* snapshot = nullptr;
  CheckpointFiles files = {};
  // Between two looks of rank 0 for a newer attempt, beside those of its commits.
  absl::Duration fence_interval = absl::Seconds(10);
  // Set by the signal thread: stop before the next step, with a checkpoint.
  const std::atomic<bool>& terminate;
  // Waits between tries to save the end of training.
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  // Called by rank 0 when a checkpoint is in its folder; may be empty.
  std::function<void(int64_t step, const std::string& folder)> on_checkpoint = {};
};

// The end of a training run.
struct TrainResult {
  TrainState state;
  // kCompleted, kEarlyStopped, kCancelled, kDaemonLost, kNonFiniteGradients, kPeerLost,
  // kDataInvalid, kDeviceFailed, kReplicasDiffer, kStaleEpoch, kCheckpointFailed (of the last one)
  ExitReason reason = ExitReason::kUnknown;
  // OK for the first three, unless a stop could not save what it was asked to.
  absl::Status status;
  std::string message = {};  // of kEarlyStopped and kTerminated
};

TrainResult Train(const TrainContext& context, TrainState state);

}  // namespace stretto::trainer
