// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs programs on one rank of the benchmark, synchronised with all other ranks.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/options/overlap_options.h"
#include "worker/bench/overlap/occupy.h"
#include "worker/bench/overlap/phases.h"
#include "worker/comm/communicator.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

// Times in seconds, of the slowest rank.
struct PhaseSample {
  double seconds = 0;
  double exposed_share = 0;  // of the communication
  double cpu = 0;            // CPU seconds of the whole process
};
struct StepSample {
  PhaseSample forward, backward, step, paired;  // StepTimes
  double optimizer = 0;
};

struct Run {
  StepSample slowest;
  std::vector<Interval> intervals;  // this rank's
};

// One program and all its runs.
struct Measured {
  EngineSpec spec;
  Variant variant = Variant::kSchedule;
  Occupation occupation = {};
  int64_t activations = 0;  // bytes of the arena of activations
  Program program = {};     // this rank's
  std::vector<Run> runs = {};
};

// The result of a parity check, equal on all ranks.
struct Parity {
  bool passed = false;
  std::string message;
  double seconds = 0;  // forward and backward of the faster step
  double loss = 0;     // of the first step
};

// The link as collectives observe it.
struct Link {
  double latency_seconds = 0;  // per step of a collective
  double bytes_per_second = 0;
};

// The CPU time of the process in forward and in backward, from the begins of operations.
// Thread-safe except for Reset.
class CpuMarks {
 public:
  // Called at the begin of a step: the time from here counts as forward.
  void Reset();
  // Called at the begin of `op`: the time since the last call was that of the operation before it.
  void Note(const Op& op);
  double forward() const { return forward_; }
  double backward() const { return backward_; }

 private:
  Mutex mutex_;
  Phase phase_ GUARDED_BY(mutex_) = Phase::kForward;
  double since_ GUARDED_BY(mutex_) = 0;
  double forward_ = 0, backward_ = 0;  // read after the step
};

// Not thread-safe. Every rank makes the same calls in the same order. An engine exists for one
// round only: competing programs are interleaved, and all of their memory together would not fit.
// On a device there is one rank, over an emulated link, and no other rank to wait for.
class Rig {
 public:
  // Connects to the other ranks. `machine` is borrowed. Errors: those of GlooCommunicator::Connect.
  static absl::StatusOr<std::unique_ptr<Rig>> Create(const OverlapOptions& options,
                                                     Machine& machine);

  // Uses this emulated link of options.ranks ranks from now on. Errors: those of the device.
  absl::Status Emulate(const EmulatedLinkOptions& link);

  // Runs the steps of one round of measured->program from the initial weights and appends them to
  // its runs. The link's token bucket is empty at the begin of each step. Errors: those of
  // BuildPlan and of the executor; Internal if a loss or a gradient norm is not finite.
  absl::Status Time(Measured* measured);

  // Runs two steps of the schedule and of its serial oracle: losses, gradient norms and all
  // gradients must be bitwise equal on every rank. Errors: those of BuildPlan and of the executor.
  absl::StatusOr<Parity> CheckParity(const EngineSpec& spec);

  // Measures latency and rate with collectives; an emulated link has its given values.
  absl::StatusOr<Link> MeasureLink();
  // Returns null for a real link.
  const EmulatedLinkOptions* emulated() const { return options_.emulated() ? &emulated_ : nullptr; }

  // Creates an engine with the initial weights and a batch.
  absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Make(const EngineSpec& spec, Variant variant,
                                                            const Occupation& occupation = {},
                                                            OnBegin on_begin = {});
  Ops& ops() { return *machine_.ops; }
  Backend& backend() { return *machine_.backend; }
  // Returns the connection to the other ranks; null for one rank, and on a device.
  Communicator* communicator() const { return communicator_.get(); }

 private:
  Rig(const OverlapOptions& options, Machine& machine) : options_(options), machine_(machine) {}

  absl::Status Start();
  // Runs one step. `marks` are the process's, if the program notes them.
  absl::StatusOr<Run> RunOnce(const Measured& measured, trainer::RankEngine& engine,
                              CpuMarks* marks);
  absl::Status SlowestRank(StepSample* sample);
  GroupLinks links() const {
    return {{.host = communicator_.get(),
             .device = devices_.empty() ? nullptr : devices_.back().get()}};
  }
  absl::StatusOr<std::vector<trainer::StepResult>> Steps(const EngineSpec& spec, Variant variant,
                                                         double* seconds);

  const OverlapOptions options_;
  Machine& machine_;
  std::unique_ptr<Communicator> communicator_;
  EmulatedLinkOptions emulated_;
  // The last one is for `emulated_`; engines may still use earlier ones. Empty on a CPU.
  std::vector<std::unique_ptr<DeviceCommunicator>> devices_;
  std::unique_ptr<trainer::RankEngine> initial_;  // has the weights that every engine starts from
};

}  // namespace stretto::bench
