// SPDX-License-Identifier: Apache-2.0
#pragma once
// `--set PATH=VALUE`: one field of a job file, given apart from it.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cli/yaml/spec_yaml.h"

namespace stretto::cli {

// Sets fields of a job as if the file had them: PATH is that of a job file, "parallelism.tp_size",
// "labels.team" or "name", and VALUE is written as there. A string needs no quotes. A list takes
// the place of the list before, and fields of a section join those before. `null` removes the
// field. Of several assignments to one field the last counts.
// Errors: InvalidArgument "--set: FIELD: found ..., expected ...", as of ParseJobFile.
absl::Status SetFields(const std::vector<std::string>& assignments, JobFile* job);

// Returns the paths that can be set, in the order of job files; a map ends with a point.
std::vector<std::string> SettableFields();

}  // namespace stretto::cli
