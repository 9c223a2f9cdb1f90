// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models by the names that people type.

#include <string>

#include "absl/status/statusor.h"

namespace stretto {

// Whether the name is a folder of a checkpoint or of a job, and not "hf:..." or "llmc:...".
bool NamesCheckpoint(const std::string& name);

// The folder of the checkpoint that the name means (CheckpointFolderOf); other names stay as they
// are. Errors: those of CheckpointFolderOf.
absl::StatusOr<std::string> ResolveModel(const std::string& name);

}  // namespace stretto
