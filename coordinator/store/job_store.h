// SPDX-License-Identifier: Apache-2.0
#pragma once
// Storage of the coordinator's records: transitions of jobs, workers and their leases, checkpoints,
// final summaries and the newest epoch. Steps are never stored.
//
// Every implementation passes the suite of tests/coordinator/store/job_store_test.cc. Used by one
// thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/driver.h"
#include "coordinator/core/records.h"
#include "proto/base/clock.h"

namespace stretto::coordinator {

class JobStore : public Persistence {
 public:
  // Returns everything committed so far: jobs by number, workers by id; and the cluster's id, which
  // is drawn when the store is created. Errors: DataLoss (a record
  // does not parse; the message names it), Unavailable.
  virtual absl::StatusOr<Snapshot> Load() = 0;
  // Commit (Persistence) also refuses, and stores nothing, for an epoch lower than the stored one
  // (InvalidArgument), and for a job whose uid or number belongs to another job (AlreadyExists).
};

// A store in memory, which is lost with the process.
std::unique_ptr<JobStore> NewMemoryStore();

struct SqliteOptions {
  // Maximum number of 4 KiB pages, beyond which a commit fails as if the disk were full; 0 means no
  // limit.
  int64_t max_pages = 0;
  // Of a database that is created; empty: a new id.
  std::string cluster_id = "";
};

// Opens or creates one database file, in an existing folder, in WAL mode with synchronous=FULL, and
// reads and checks all of it. Only this store can write to it while it is open, so a second
// coordinator on the same file is refused; others can read. Errors: NotFound (no such folder),
// FailedPrecondition (another process writes to it, or its user_version is newer than this build's;
// the message names both), DataLoss (empty, not a database, damaged; the message names what was
// found and what to do), PermissionDenied, ResourceExhausted, Unavailable.
absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path,
                                                          const SqliteOptions& options = {});

// Commits an epoch beyond any that was issued since the store's content was copied, and returns it:
// for a store that was restored from a copy or repaired.
absl::StatusOr<Epoch> SkipEpochs(JobStore& store);

// Forwards calls to `store` and reports the duration and the result of every commit to `observer`.
// `clock` is borrowed and must outlive the store.
std::unique_ptr<JobStore> ObserveStore(
    std::unique_ptr<JobStore> store, const Clock& clock,
    std::function<void(absl::Duration, const absl::Status&)> observer);

// Forwards calls to `store`, except that commits fail on demand with Unavailable. For tests.
class FaultyStore final : public JobStore {
 public:
  enum class Fault {
    kNone,
    kRefused,       // nothing was stored
    kResponseLost,  // all was stored, but the caller gets an error
  };

  explicit FaultyStore(JobStore& store) : store_(store) {}

  // Applies `fault` to the n-th commit from now (1 = the next).
  void FailCommit(int64_t n, Fault fault = Fault::kRefused);
  // Refuses every commit, as a full disk does, until it is called with false.
  void RefuseAll(bool refuse) { refuse_all_ = refuse; }
  int64_t commits() const { return commits_; }  // commits that reached the store

  absl::StatusOr<Snapshot> Load() override { return store_.Load(); }
  absl::Status Commit(const std::vector<Record>& records) override;

 private:
  JobStore& store_;
  int64_t commits_ = 0;
  int64_t until_fault_ = 0;
  Fault fault_ = Fault::kNone;
  bool refuse_all_ = false;
};

}  // namespace stretto::coordinator
