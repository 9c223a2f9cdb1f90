// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the core against a store: applies an event, stores the resulting records in one transaction,
// and only then lets anything leave the process (persist before send).
//
// The driver is here and not in store/ because `Persistence` is all it needs of a store. JobStore
// in store/ implements that interface, so the dependency points one way: store -> core. This is the
// only file in this folder with a lock; Core itself stays pure.
//
// If the store refuses, nothing is sent, the core reverts the event (Core::Undo), and Submit
// returns the error. The caller handles it by event:
// - CreateJob, CancelJob, DeleteJob, ForgetWorker: return it to the user.
// - WorkerRegistered, WorkerHeartbeat, RankReported: end the session with it; the daemon reconnects
//   and replays.
// - Tick, WorkerDisconnected: ignore it; the next Tick tries again.
//
// Events come with the time of a monotonic clock, from which the driver makes the steady clock of
// the core (steady_clock.h). It stops while the store refuses, and every Tick then only tries the
// store, until it takes a record. A Tick that ends a gap is not applied.
//
// A refused commit may still have been stored (the disk answered too late). Therefore the next
// commit begins with the core's present records of the same objects.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "coordinator/core/steady_clock.h"
#include "proto/base/mutex.h"

namespace stretto::coordinator {

// Where records are kept. Called by one thread at a time.
class Persistence {
 public:
  virtual ~Persistence() = default;
  // Stores all of `records` or none; they are durable on return. Errors: ResourceExhausted (disk
  // full), Unavailable, DataLoss (damaged), and others, which the driver's callers see as
  // Unavailable.
  virtual absl::Status Commit(const std::vector<Record>& records) = 0;
};

// The world outside. Called in order with the driver's lock held, so implementations must neither
// block nor call the driver: they put the message on a queue.
class Transport {
 public:
  virtual ~Transport() = default;
  // Sends to a session. Drops the message if that session has ended.
  virtual void SendToWorker(const Send& send) = 0;
  // Called after the change has been stored, once per event and job.
  virtual void JobChanged(const JobRecord& job) = 0;
  virtual void JobDeleted(const ErasedJob& job) = 0;
  virtual void WorkerChanged(const Worker& worker) = 0;
  // Returns the opaque summary of a job of which an attempt is about to end, or that is about to
  // end without one; of one that is about to be retired, a short one, at most a few hundred bytes.
  // It is stored with the transition. Called before the commit, and again if the commit fails.
  virtual std::string FinalSummary(const JobRecord& job) = 0;
};

struct Result {
  absl::Status status;
  std::string job_id;  // as in Effects
  bool fresh = false;  // as in Effects
};

// Thread-safe. Borrows persistence and transport, which must outlive it.
class Driver {
 public:
  Driver(Core core, Persistence& persistence, Transport& transport)
      : core_(std::move(core)),
        clock_(core_.options().longest_round),
        persistence_(persistence),
        transport_(transport) {}

  // `now.steady` is of a monotonic clock. May block for one write to disk, so do not call it from a
  // reactor's thread.
  Result Submit(const Event& event, Moment now);

  // Runs `read(const Core&)` under the lock and returns its result by value. Copy what you need:
  // `read` must not let pointers escape and must not call the driver.
  template <class F>
  auto Read(F&& read) const {
    const MutexLock lock(mu_);
    return std::forward<F>(read)(static_cast<const Core&>(core_));
  }

 private:
  absl::Status Persist(std::vector<Record> records, const std::set<std::string>& summaries,
                       absl::Duration monotonic) REQUIRES(mu_);
  std::vector<Record> Repairs() const REQUIRES(mu_);

  mutable Mutex mu_;
  Core core_ GUARDED_BY(mu_);
  SteadyClock clock_ GUARDED_BY(mu_);  // stopped while the last commit has failed
  // Ids in refused commits. The store may or may not have their records.
  std::set<std::string> unsure_jobs_ GUARDED_BY(mu_);
  std::set<std::string> unsure_workers_ GUARDED_BY(mu_);
  Persistence& persistence_;
  Transport& transport_;
};

}  // namespace stretto::coordinator
