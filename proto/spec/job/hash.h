// SPDX-License-Identifier: Apache-2.0
#pragma once
// The identity of a training.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Of everything that must be equal for a resumed run to continue bit by bit: the fields that the
// table marks (Field::in_hash) of a spec that Normalize has returned. Steps and checkpoint settings
// may differ between a run and its continuation, and so may what only orders the same operations:
// the schedule's name, recompute, defer_wgrads. Where data is may change too, but not in which order
// it comes. Under auto_merge_wgrads merge_wgrads is the number that memory has chosen; 0 counts as 1.
// Never changes for a spec that an earlier release knew: old checkpoints keep their hash.
std::string HashOf(const v1alpha1::JobSpec& normalized);

}  // namespace stretto::spec
