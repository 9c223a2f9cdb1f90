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

// The replicas of each stage. Specs of older releases have no number of a stage's own.
inline std::vector<int> ReplicasOf(const v1alpha1::ParallelismSpec& parallelism) {
  std::vector<int> replicas(TpSizesOf(parallelism).size(), parallelism.dp_size());
  for (int i = 0; i < parallelism.stages_size(); ++i) {
    const int own = parallelism.stages(i).dp_size();
    if (own > 0) replicas[static_cast<size_t>(i)] = own;
  }
  return replicas;
}

// The ranks of each stage, and of the job.
inline std::vector<int> RanksOf(const v1alpha1::ParallelismSpec& parallelism) {
  std::vector<int> ranks = TpSizesOf(parallelism);
  const std::vector<int> replicas = ReplicasOf(parallelism);
  for (size_t stage = 0; stage < ranks.size(); ++stage) ranks[stage] *= replicas[stage];
  return ranks;
}
inline int WorldSizeOf(const v1alpha1::ParallelismSpec& parallelism) {
  const std::vector<int> ranks = RanksOf(parallelism);
  return std::accumulate(ranks.begin(), ranks.end(), 0);
}

// The micro-batches of a step, each of which has micro_batch_size sequences for each of dp_size
// shares.
inline int MicroBatchesOf(const v1alpha1::JobSpec& spec) {
  return static_cast<int>(spec.global_batch_size() /
                          (int64_t{spec.micro_batch_size()} * spec.parallelism().dp_size()));
}

}  // namespace stretto::spec
