#pragma once
// Runs programs on one rank of the benchmark, all ranks in step with each other.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/bench/overlap/options.h"
#include "tests/bench/overlap/phases.h"
#include "worker/comm/communicator.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/schedule/plan.h"
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
  Program program;  // this rank's
  std::vector<Run> runs;
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

// Not thread-safe. Every rank makes the same calls in the same order. An engine lives for one run:
// programs that compete are interleaved, and all of their memory would not fit.
class Rig {
 public:
  // Meets the other ranks. Errors: those of GlooCommunicator::Connect.
  static absl::StatusOr<std::unique_ptr<Rig>> Create(const OverlapOptions& options);

  // One step of measured->program from the initial weights, appended to its runs. The link's token
  // bucket is empty when it begins. Errors: those of BuildPlan and of the executor.
  absl::Status Time(Measured* measured);

  // Two steps of the schedule and of its serial oracle: losses, gradient norms and every gradient
  // must be equal to the bit on every rank. Errors: those of BuildPlan and of the executor.
  absl::StatusOr<Parity> CheckParity(const EngineSpec& spec);

  absl::StatusOr<Link> MeasureLink();

  // An engine with the initial weights and a batch in place.
  absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Make(const EngineSpec& spec, Variant variant,
                                                            OnBegin on_begin = {});
  Ops& ops() { return *ops_; }

 private:
  explicit Rig(const OverlapOptions& options) : options_(options) {}

  absl::Status Start();
  absl::Status SlowestRank(StepSample* sample);
  absl::StatusOr<std::vector<double>> Fingerprint(const EngineSpec& spec, Variant variant,
                                                  double* seconds);

  const OverlapOptions options_;
  std::unique_ptr<Communicator> communicator_;  // null for one rank
  const std::unique_ptr<Ops> ops_ = MakeCpuOps();
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(*ops_);
  std::unique_ptr<trainer::RankEngine> initial_;  // holds the weights that every engine starts from
  std::vector<float> drain_;
};

}  // namespace stretto::bench
