// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many ranks a job has, and how they share a step. The spec must be normalized and sound.

#include <cstdint>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

inline int WorldSizeOf(const v1alpha1::ParallelismSpec& parallelism) {
  return parallelism.pp_size() * parallelism.dp_size() * parallelism.tp_size();
}

// The micro-batches of a step that each replica of the model computes.
inline int MicroBatchesOf(const v1alpha1::JobSpec& spec) {
  return static_cast<int>(spec.global_batch_size() /
                          (int64_t{spec.micro_batch_size()} * spec.parallelism().dp_size()));
}

}  // namespace stretto::spec
