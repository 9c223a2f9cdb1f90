// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint list`: lists the folder of a job.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/document/document.h"

namespace stretto {

// Returns a table or JSON with every checkpoint folder by step: size, age (JSON: time), samples and
// tokens trained on, TP size, the held-out loss of its step if it was evaluated, whether manifest
// and sizes are correct, and which is the best. Errors: NotFound (no such folder, or not a job's),
// those of ErrnoStatus.
absl::StatusOr<std::string> ListCheckpoints(const std::string& job_folder, OutputFormat format,
                                            absl::Time now);

}  // namespace stretto
