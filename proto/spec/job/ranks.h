// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many ranks a job has, and how they share a step. The spec must be normalized and sound.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// The ranks that share a replica of each stage.
inline std::vector<int> TpSizesOf(const v1alpha1::ParallelismSpec& parallelism) {
  std::vector<int> sizes;
  for (const v1alpha1::StageSpec& stage : parallelism.stages()) sizes.push_back(stage.tp_size());
  if (sizes.empty()) {
    sizes.assign(static_cast<size_t>(std::max(1, parallelism.pp_size())), parallelism.tp_size());
  }
  return sizes;
}

inline int WorldSizeOf(const v1alpha1::ParallelismSpec& parallelism) {
  const std::vector<int> sizes = TpSizesOf(parallelism);
  return std::accumulate(sizes.begin(), sizes.end(), 0) * parallelism.dp_size();
}

// The micro-batches of a step that each replica of the model computes.
inline int MicroBatchesOf(const v1alpha1::JobSpec& spec) {
  return static_cast<int>(spec.global_batch_size() /
                          (int64_t{spec.micro_batch_size()} * spec.parallelism().dp_size()));
}

}  // namespace stretto::spec
