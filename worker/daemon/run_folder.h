// SPDX-License-Identifier: Apache-2.0
#pragma once
// A node's files of every rank that it runs, so that a restarted daemon finds its trainers:
//
//   STATE/runs/<job_id>-<first 8 of job uid>/epoch-<E>/rank-<R>/
//     assignment   serialized Assign; its `ranks` holds all of this node's ranks
//     pid          identity of the trainer process (process.h)
//     trainer.log  stdout and stderr of the trainer, appended
//     reports.log  every RankReport, in order: the source of truth (worker/report)
//   flight.bin   position of the trainer, readable after kill -9
//     program.txt  the step program as text
//     trace*.bin   when each operation of the newest steps ran (worker/report/trace_log.h)
//     stopping     present once the daemon ended this rank; holds the reason
//     done         present once the coordinator acknowledged the last report
//
// Not thread-safe for calls that name the same rank. Files are written whole or not at all.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/process.h"
#include "worker/daemon/rights/rights.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// One rank's folder: its paths, and the small files that the daemon itself writes.
class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string log() const { return path_ + "/trainer.log"; }
  std::string reports() const { return path_ + "/reports.log"; }
  std::string flight() const { return path_ + "/flight.bin"; }
  std::string program() const { return path_ + "/program.txt"; }

  absl::Status WriteProcess(const ProcessId& process) const;
  // Errors: NOT_FOUND (never started), PERMISSION_DENIED (not written by a daemon).
  absl::StatusOr<ProcessId> ReadProcess() const;

  absl::Status MarkStopping(const std::string& reason) const;
  bool Stopping() const;
  absl::Status MarkDone() const;
  bool Done() const;

  // Gives the folder, and a report log that there is already, to the user of the trainer. The
  // daemon's files in it remain the daemon's.
  absl::Status GiveTo(const TrainerUser& user) const;

  // Opens trainer.log for appending and writes one line about the start of a trainer, so that a
  // full disk is detected here. Errors name the file; RESOURCE_EXHAUSTED if the disk is full.
  absl::StatusOr<FileDescriptor> OpenLog(const std::string& first_line) const;

 private:
  std::string path_;
};

// A rank found on disk.
struct StoredRun {
  RankKey key;
  RunFolder folder;
  stretto::v1alpha1::Assign assign;
  int32_t slot = 0;
  std::optional<ProcessId> process;
  bool done = false;
};

// All run folders of one state folder.
class RunFolders {
 public:
  explicit RunFolders(std::string state_dir) : root_(std::move(state_dir) + "/runs") {}

  // Creates the folder of one rank and writes its assignment. Idempotent. Errors: INVALID_ARGUMENT
  // (job id or uid is not valid as a folder name).
  absl::StatusOr<RunFolder> Create(const stretto::v1alpha1::Assign& assign, int32_t rank) const;

  // Returns the folder of a rank that this node has or had. Errors: NOT_FOUND.
  absl::StatusOr<RunFolder> Find(const RankKey& key) const;

  // Returns every rank on disk whose assignment can be read; others are logged and unchanged.
  std::vector<StoredRun> Scan() const;

  // Deletes all but the newest `keep` jobs that have ended. Keeps jobs in `job_uids_in_use` and
  // jobs with a rank that is not done. Returns how many were deleted.
  int Prune(int keep, const std::set<std::string>& job_uids_in_use) const;

  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

// Returns the slot of a rank in an assignment. Errors: NOT_FOUND.
absl::StatusOr<int32_t> SlotOf(const stretto::v1alpha1::Assign& assign, int32_t rank);

}  // namespace stretto::daemon
