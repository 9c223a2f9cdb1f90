// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the step on one rank and the share of its matrix products.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/overlap/rig.h"

namespace stretto::bench {

// Medians of interleaved runs, in seconds.
struct SingleRank {
  double t_forward = 0, t_backward = 0, t_step = 0, t_optimizer = 0;
  // The same products on the same buffers, in sequence, without those of attention.
  double t_gemm = 0;
  double loss = 0;
  std::vector<double> samples;  // of t_step
};

// megatron_sync with options.ranks 1. Errors: those of Rig.
absl::StatusOr<SingleRank> MeasureSingleRank(const OverlapOptions& options, Rig& rig);

}  // namespace stretto::bench
