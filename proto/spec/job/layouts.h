// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layouts that a restart may use (restart.layouts): how a spec reads in one of them.

#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Returns the parallelism section in this layout: its sizes, and what still has a meaning of the
// rest.
v1alpha1::ParallelismSpec InLayout(v1alpha1::ParallelismSpec parallelism,
                                   const v1alpha1::LayoutSpec& layout);

// Returns the parallelism of the newest attempt of a job.
v1alpha1::ParallelismSpec ParallelismOf(const v1alpha1::Job& job);

// Returns a normalised spec in layout number `layout` of restart.layouts, from 1, normalised and
// without a list of layouts. 0 leaves the spec as it is. The batch of a step stays that of the job.
v1alpha1::JobSpec WithLayout(const v1alpha1::JobSpec& spec, int layout);

// Each layout must be one that the job could have as its own. Faults are of "restart.layouts[I]".
// Call it for a spec without other violations.
void CheckLayouts(const v1alpha1::JobSpec& spec, Violations* violations);

}  // namespace stretto::spec
