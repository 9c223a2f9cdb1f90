// SPDX-License-Identifier: Apache-2.0
#pragma once
// Only one attempt of a run saves: the newest that has begun. The coordinator may start an attempt
// while trainers of the one before still run on a worker that it cannot reach. The folder of the
// job's checkpoints is what both attempts share, so the fence is there: an attempt is refused once
// the folder has a checkpoint or a temporary of a newer one.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/job_folder.h"

namespace stretto {

// Refuses all checkpoints that older attempts of the run commit from now on: makes an empty
// temporary of step 0, which the next commit of this attempt removes. Creates the job's folder if
// needed. Errors: those of ErrnoStatus.
absl::Status RaiseFence(const std::string& job_folder, const Attempt& attempt);

// Errors: Aborted (a newer attempt has begun; names its epoch and the folder that shows it), those
// of ListJobFolder.
absl::Status CheckFence(const std::string& job_folder, const Attempt& attempt);

// CheckFence for an attempt that asks again and again: it reads the manifest of a folder once.
// Copyable; not thread-safe.
class Fence {
 public:
  Fence(std::string job_folder, Attempt attempt)
      : job_folder_(std::move(job_folder)), attempt_(std::move(attempt)) {}

  absl::Status Check();

 private:
  // A checkpoint of this run. A commit puts another folder in its place, but changes nothing in it.
  struct Known {
    uint64_t inode = 0;
    absl::Time changed;
    int64_t epoch = 0;
  };

  int64_t EpochOf(const JobEntry& folder, std::map<std::string, Known>* known) const;

  std::string job_folder_;
  Attempt attempt_;
  std::map<std::string, Known> known_;  // by path
};

}  // namespace stretto
