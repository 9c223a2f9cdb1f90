// SPDX-License-Identifier: Apache-2.0
#pragma once
// Only one attempt of a run saves: the newest that has begun. The coordinator may start an attempt
// while trainers of the one before still run on a worker that it cannot reach. The folder of the
// job's checkpoints is what both attempts share, so the fence is there: an attempt is refused once
// the folder has a checkpoint or a temporary of a newer one.

#include <string>

#include "absl/status/status.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {

// Refuses all checkpoints that older attempts of the run commit from now on: makes an empty
// temporary of step 0, which the next commit of this attempt removes. Creates the job's folder if
// needed. Errors: those of ErrnoStatus.
absl::Status RaiseFence(const std::string& job_folder, const Attempt& attempt);

// Errors: Aborted (a newer attempt has begun; names its epoch and the folder that shows it), those
// of ListJobFolder.
absl::Status CheckFence(const std::string& job_folder, const Attempt& attempt);

}  // namespace stretto
