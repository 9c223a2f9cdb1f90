#pragma once
// What a job spec shows by itself, checked before anything is stored: no files, no devices, no
// state of the cluster. What needs those is checked by the workers when they prepare.
//
// Every refusal is INVALID_ARGUMENT, names all fields at fault in BadRequest, and reads
// "spec.x.y: found A, expected B". Pure functions.

#include "absl/status/status.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// The spec with every default written out, so that what is stored shows what will run: dimensions
// of the preset, sizes of the slices, optimizer settings. Idempotent. Fields it cannot make sense
// of it leaves for ValidateSpec.
v1alpha1::JobSpec NormalizeSpec(v1alpha1::JobSpec spec);

// Checks a spec that NormalizeSpec has returned. A normalized spec that passed once passes again.
absl::Status ValidateSpec(const v1alpha1::JobSpec& normalized);

}  // namespace stretto::service
