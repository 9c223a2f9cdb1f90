// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the core against a store: applies an event, stores what follows in one transaction, and only
// then lets anything leave the process (persist before send).
//
// The driver lives here and not in store/ because it needs of a store only `Persistence`; store/
// implements that interface (JobStore), so the dependency points one way: store -> core. It is the
// one file in this folder with a lock; Core itself stays pure.
//
// When the store refuses, nothing is sent, the core takes the event back (Core::Undo), and the
// error is the answer. What to do with it: CreateJob, CancelJob: return it; WorkerRegistered,
// WorkerHeartbeat, RankReported: end the session with it, the daemon connects again and replays;
// Tick, WorkerDisconnected: nothing, the next Tick tries again. A refused commit may still have
// been stored (the disk answered too late); the next commit therefore begins with what the core now
// holds of the same objects.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "proto/base/mutex.h"

namespace stretto::coordinator {

// Where records are kept. Called by one thread at a time.
class Persistence {
 public:
  virtual ~Persistence() = default;
  // All of `records` or none, durable on return. Errors: ResourceExhausted (disk full),
  // Unavailable.
  virtual absl::Status Commit(const std::vector<Record>& records) = 0;
};

// The world outside. Called with the driver's lock held, in order: must not block and must not call
// the driver (put the message on a queue).
class Transport {
 public:
  virtual ~Transport() = default;
  // To a session; drop it if that session has ended.
  virtual void SendToWorker(const Send& send) = 0;
  // After the change has been stored, once per event and job.
  virtual void JobChanged(const JobRecord& job) = 0;
  virtual void WorkerChanged(const Worker& worker) = 0;
  // The opaque summary of a job that is about to end, stored with the transition. Called before the
  // commit, and again if that fails.
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
      : core_(std::move(core)), persistence_(persistence), transport_(transport) {}

  // May block for one write to disk: do not call it from a reactor's own thread.
  Result Submit(const Event& event, absl::Time now);

  // Runs `read(const Core&)` under the lock and returns its result by value. Copy out what you
  // need; do not let pointers escape, and do not call the driver from inside.
  template <class F>
  auto Read(F&& read) const {
    const MutexLock lock(mu_);
    return std::forward<F>(read)(static_cast<const Core&>(core_));
  }

 private:
  absl::Status Persist(std::vector<Record> records) REQUIRES(mu_);
  std::vector<Record> Repairs() const REQUIRES(mu_);

  mutable Mutex mu_;
  Core core_ GUARDED_BY(mu_);
  // Ids in refused commits; what the store has of them is unknown.
  std::set<std::string> unsure_jobs_ GUARDED_BY(mu_);
  std::set<std::string> unsure_workers_ GUARDED_BY(mu_);
  Persistence& persistence_;
  Transport& transport_;
};

}  // namespace stretto::coordinator
