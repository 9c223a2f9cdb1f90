// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the coordinator's records live. Stored: transitions of jobs, workers and their leases,
// checkpoints, final summaries, the newest epoch. Never steps.
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
  // Everything committed so far: jobs by number, workers by id. Errors: DataLoss (a record does not
  // parse; names it), Unavailable.
  virtual absl::StatusOr<Snapshot> Load() = 0;
  // Commit (Persistence) also refuses, with nothing stored: an epoch lower than the stored one
  // (InvalidArgument), and a job whose uid or number belongs to another job (AlreadyExists).
};

// Forgets all with the process.
std::unique_ptr<JobStore> NewMemoryStore();

struct SqliteOptions {
  // Pages of 4 KiB beyond which a commit fails as if the disk were full; 0 = no limit.
  int64_t max_pages = 0;
};

// One database file in WAL mode with synchronous=FULL, created with its folder's existence
// required. Holds the database exclusively: a second coordinator on the same file is refused.
// Errors: NotFound (folder), FailedPrecondition (user_version newer than this build knows: names
// both; or another process has it open), DataLoss (not a database, or damaged), PermissionDenied,
// ResourceExhausted, Unavailable.
absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path,
                                                          const SqliteOptions& options = {});

// Passes calls on to `store` and tells `observer` of every commit: how long it took, and how it
// ended. `clock` is borrowed and outlives the store.
std::unique_ptr<JobStore> ObserveStore(
    std::unique_ptr<JobStore> store, const Clock& clock,
    std::function<void(absl::Duration, const absl::Status&)> observer);

// Passes calls on to `store`, except that commits fail on demand with Unavailable. For tests.
class FaultyStore final : public JobStore {
 public:
  enum class Fault {
    kNone,
    kRefused,       // nothing was stored
    kResponseLost,  // all was stored, and the caller is told it was not
  };

  explicit FaultyStore(JobStore& store) : store_(store) {}

  // The n-th commit from now (1 = next) meets `fault`.
  void FailCommit(int64_t n, Fault fault = Fault::kRefused);
  int64_t commits() const { return commits_; }  // that reached the store

  absl::StatusOr<Snapshot> Load() override { return store_.Load(); }
  absl::Status Commit(const std::vector<Record>& records) override;

 private:
  JobStore& store_;
  int64_t commits_ = 0;
  int64_t until_fault_ = 0;
  Fault fault_ = Fault::kNone;
};

}  // namespace stretto::coordinator
