// SPDX-License-Identifier: Apache-2.0
#pragma once
// The runs that have had one name. Each writes into the same folder, because the name is all that
// the folder has of a job: a name is free again once its job is deleted or the coordinator's state
// is lost. Epochs of two such runs say nothing about which of them is newer.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/job_folder.h"

namespace stretto {

struct StoredCheckpoint {
  JobEntry folder;
  Manifest manifest;
};

// Removes all but the checkpoints of one run, and sorts those, newest first: the greatest (epoch,
// step). Chosen is the only run that is nobody's parent here. `job_folder` names the folder in
// errors. Errors: FailedPrecondition (several runs; names each with its newest checkpoint).
absl::Status KeepOneRun(const std::string& job_folder, std::vector<StoredCheckpoint>* stored);

// The same for the run with this uid at an attempt of this epoch. If it has no checkpoint, those
// without a uid and of an earlier epoch are kept: an older release wrote them, most likely for it.
void KeepRun(const std::string& job_uid, int64_t epoch, std::vector<StoredCheckpoint>* stored);

}  // namespace stretto
