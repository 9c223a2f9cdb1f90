// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint list`: what lies in the folder of a job.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stretto {

// A table, or JSON: every folder of a checkpoint by step, with its size, how long ago it was
// written (JSON: when), samples and tokens trained on, TP size, and whether manifest and sizes
// hold. Errors: NotFound (no such folder, or none of a job), those of ErrnoStatus.
absl::StatusOr<std::string> ListCheckpoints(const std::string& job_folder, bool json,
                                            absl::Time now);

}  // namespace stretto
