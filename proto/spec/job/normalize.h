// SPDX-License-Identifier: Apache-2.0
#pragma once
// Defaults.

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// The spec with every default written out, so that what is stored shows what will run: dimensions
// of the preset, sizes of the slices, optimizer settings. Idempotent. Leaves fields that make no
// sense for Validate.
v1alpha1::JobSpec Normalize(v1alpha1::JobSpec spec);

// Writes the dimensions of the preset, if the model names a known one, into fields that are not
// given.
void ExpandPreset(v1alpha1::ModelSpec* model);

}  // namespace stretto::spec
