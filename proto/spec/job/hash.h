// SPDX-License-Identifier: Apache-2.0
#pragma once
// The identity of a training run.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Hashes everything that must be equal for a resumed run to continue bitwise: the fields that the
// table marks (Field::in_hash) in a spec that Normalize has returned. Steps and checkpoint settings
// may differ between a run and its continuation, and so may settings that only order the same
// operations: the schedule's name, recompute, defer_wgrads. The location of the data may change,
// but not the order in which it is read. Under auto_merge_wgrads, merge_wgrads is the number that
// the ranks chose from their memory; 0 counts as 1. The hash of a spec that an earlier release
// accepted never changes, so old checkpoints remain valid.
std::string HashOf(const v1alpha1::JobSpec& normalized);

// Hashes what decides the results of a run up to rounding: all of the above but the layout, which
// is the sizes of parallelism, the micro-batches of a step, slices, splits, sequence_parallel and
// merge_wgrads. A run that continues under another layout agrees with an uninterrupted one within
// rounding.
std::string MathHashOf(const v1alpha1::JobSpec& normalized);

}  // namespace stretto::spec
