// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs programs on one rank of the benchmark, all ranks in step with each other.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/overlap/occupy.h"
#include "worker/bench/overlap/options.h"
#include "worker/bench/overlap/phases.h"
#include "worker/comm/communicator.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

// The slowest rank's, in seconds.
struct PhaseSample {
  double seconds = 0;
  double exposed_share = 0;  // of the communication
  double cpu = 0;            // of the whole process
};
struct StepSample {
  PhaseSample forward, backward, step;
  double optimizer = 0;
};

struct Run {
  StepSample slowest;
  std::vector<Interval> intervals;  // this rank's
};

// One program and every run of it.
struct Measured {
  EngineSpec spec;
  Variant variant = Variant::kSchedule;
  Occupation occupation = {};
  Program program = {};  // this rank's
  std::vector<Run> runs = {};
};

// What both ranks need to agree on whether a schedule computes the right thing.
struct Parity {
  bool passed = false;
  std::string message;
  double seconds = 0;  // forward and backward of the schedule, the faster of its steps
  double loss = 0;     // of the first step
};

// The link, as collectives see it.
struct Link {
  double latency_seconds = 0;  // per step of a collective
  double bytes_per_second = 0;
};

// The process's CPU time as backward and the optimizer begin.
class CpuMarks {
 public:
  // At the begin of a step.
  void Reset() { backward_ = optimizer_ = 0; }
  void Note(const Op& op);
  double backward() const { return backward_.load(); }
  double optimizer() const { return optimizer_.load(); }  // 0: nobody noted it

 private:
  std::atomic<double> backward_{0}, optimizer_{0};
};

// Not thread-safe. Every rank makes the same calls in the same order. An engine lives for one
// round: programs that compete are interleaved, and all of their memory would not fit. On a device
// there is one rank, over an emulated link, and nobody to wait for.
class Rig {
 public:
  // Meets the other ranks. `machine` is borrowed. Errors: those of GlooCommunicator::Connect.
  static absl::StatusOr<std::unique_ptr<Rig>> Create(const OverlapOptions& options,
                                                     Machine& machine);

  // From here on ranks meet over this link, of options.ranks. Errors: those of the device.
  absl::Status Emulate(const EmulatedLinkOptions& link);

  // The steps of a round of measured->program from the initial weights, appended to its runs. The
  // link's token bucket is empty when each begins. Errors: those of BuildPlan and of the executor;
  // Internal when a loss or a gradient norm is not finite.
  absl::Status Time(Measured* measured);

  // Two steps of the schedule and of its serial oracle: losses, gradient norms and every gradient
  // must be equal to the bit on every rank. Errors: those of BuildPlan and of the executor.
  absl::StatusOr<Parity> CheckParity(const EngineSpec& spec);

  // By collectives; of an emulated link what it was told.
  absl::StatusOr<Link> MeasureLink();
  // Null where the link is a real one.
  const EmulatedLinkOptions* emulated() const { return options_.emulated() ? &emulated_ : nullptr; }

  // An engine with the initial weights and a batch in place.
  absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Make(const EngineSpec& spec, Variant variant,
                                                            const Occupation& occupation = {},
                                                            OnBegin on_begin = {});
  Ops& ops() { return *machine_.ops; }

 private:
  Rig(const OverlapOptions& options, Machine& machine) : options_(options), machine_(machine) {}

  absl::Status Start();
  // One step. `marks` are the process's where the program notes them.
  absl::StatusOr<Run> RunOnce(const Measured& measured, trainer::RankEngine& engine,
                              CpuMarks* marks);
  absl::Status SlowestRank(StepSample* sample);
  GroupLink link() const {
    return {.host = communicator_.get(),
            .device = devices_.empty() ? nullptr : devices_.back().get()};
  }
  absl::StatusOr<std::vector<trainer::StepResult>> Steps(const EngineSpec& spec, Variant variant,
                                                         double* seconds);

  const OverlapOptions options_;
  Machine& machine_;
  std::unique_ptr<Communicator> communicator_;  // null for one rank, and on a device
  EmulatedLinkOptions emulated_;
  // The last is of `emulated_`; engines may hold those before it. None on a CPU.
  std::vector<std::unique_ptr<DeviceCommunicator>> devices_;
  std::unique_ptr<trainer::RankEngine> initial_;  // holds the weights that every engine starts from
  std::vector<float> drain_;
};

}  // namespace stretto::bench
