// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how replicas add up their gradients: one process per rank, over real connections.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/rounds.h"
#include "worker/bench/options/replicas_options.h"

namespace stretto::bench {

// One way to run the step. Times are in seconds, of the slowest rank, medians over rounds.
struct VariantResult {
  std::string name;  // "synchronous", "all_reduce", "zero"
  EngineSpec spec;
  std::vector<double> steps;    // of all rounds
  double compute = 0;           // its computation alone
  double comm = 0;              // its collectives alone, back to back
  double comm_cpu = 0;          // CPU time of the process in that
  double hidden_interval = 0;   // the share of communication that ran under computation
  int64_t optimizer_bytes = 0;  // that a rank keeps

  double median() const;
  double ideal() const;        // no step can be shorter: max(compute + comm_cpu, comm)
  double hidden() const;       // the smaller of hidden_interval and what the step saved of `comm`
  double most_hidden() const;  // what a step of ideal() saves of `comm`: no step can hide more
};

struct ReplicasResult {
  std::vector<VariantResult> variants;
  Rounds rounds;
};

// Every rank calls this together; all get the same result. `say` gets lines for the user. Errors:
// those of MeasuredJob; Internal also if ZeRO changes a loss or a norm.
absl::StatusOr<ReplicasResult> MeasureReplicas(const ReplicasOptions& options, const Say& say);

}  // namespace stretto::bench
