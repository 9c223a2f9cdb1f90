// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint inspect`: which model weights are of.

#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct InspectModelOptions {
  std::string name;  // as of OpenModel
  bool tensors = false;
  bool json = false;
  bool spec = false;
};

// For people, as JSON, or, with `spec`, as the block `model:` of a job file.
// Errors: those of ResolveModel and OpenModel.
absl::StatusOr<std::string> InspectModel(const InspectModelOptions& options);

// The block `model:` of a job file, with the fields of ModelSpec in job.proto. `initial_weights` is
// left out where empty.
std::string JobFileModel(const ModelSpec& model, const std::string& initial_weights);

}  // namespace stretto
