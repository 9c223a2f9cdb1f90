// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint inspect`: describes the model of some weights.

#include <string>

#include "absl/status/statusor.h"
#include "proto/document/document.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct InspectModelOptions {
  std::string name;  // in the form of OpenModel
  bool tensors = false;
  OutputFormat format = OutputFormat::kTable;
  bool spec = false;
};

// Returns text, JSON or, with `spec`, the block `model:` of a job file. Errors: those of
// ResolveModel and OpenModel.
absl::StatusOr<std::string> InspectModel(const InspectModelOptions& options);

// Returns the block `model:` of a job file, with the fields of ModelSpec in job.proto and, if not
// empty, `initial_weights`.
std::string JobFileModel(const ModelSpec& model, const std::string& initial_weights);

}  // namespace stretto
