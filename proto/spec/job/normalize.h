// SPDX-License-Identifier: Apache-2.0
#pragma once
// Defaults of a job spec.

#include <cstdint>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Returns the spec with every default filled in, so that the stored spec shows what will run:
// dimensions of the preset, sizes of the slices, optimizer settings. Idempotent. Leaves invalid
// fields for Validate.
v1alpha1::JobSpec Normalize(v1alpha1::JobSpec spec);

// Returns the shortest spec that has this one as its Normalize: without the fields that have their
// default. Those then follow what somebody changes in it.
v1alpha1::JobSpec WithoutDefaults(const v1alpha1::JobSpec& normalized);

// Returns the number of steps that consume spec.tokens, the last one whole; 0 if the spec gives no
// tokens, or no valid size of a step.
int64_t StepsOfTokens(const v1alpha1::JobSpec& spec);

// Copies the dimensions of the preset, if the model names a known one, to fields that are not
// given.
void ExpandPreset(v1alpha1::ModelSpec* model);

}  // namespace stretto::spec
