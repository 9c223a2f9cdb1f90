// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resolves the names of models on command lines.

#include <string>

#include "absl/status/statusor.h"

namespace stretto {

// Whether the name is a folder of a checkpoint or of a job, and not "hf:..." or "llmc:...".
bool NamesCheckpoint(const std::string& name);

// Returns the folder of the checkpoint that the name denotes (CheckpointFolderOf); other names are
// returned unchanged. Errors: those of CheckpointFolderOf.
absl::StatusOr<std::string> ResolveModel(const std::string& name);

}  // namespace stretto
