// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state that all calls share: the driver, the open streams, and which stream listens to which
// job. The hub knows no gRPC; reactors implement the small interfaces below. It decides nothing: it
// carries events to the core and effects to the streams concerned.
//
// All methods run on the loop. Submit calls the Transport methods with the driver's lock held, so
// those only queue.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/driver.h"
#include "coordinator/service/history.h"
#include "coordinator/service/inspections.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/loop.h"
#include "coordinator/service/rendezvous.h"
#include "coordinator/service/user_streams.h"
#include "coordinator/telemetry/audit.h"
#include "coordinator/telemetry/telemetry.h"
#include "proto/base/clock.h"
#include "proto/base/line_rate.h"
#include "proto/tls/callers.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {

// An open stream or a waiting call. It is registered with the hub while it exists.
class Stream {
 public:
  virtual ~Stream() = default;
  // Of the caller; empty without TLS, and of a reader in this process.
  virtual const tls::Credential& credential() const = 0;
  // Ends the call with `status` once the write in progress is done.
  virtual void Close(const absl::Status& status) = 0;
  // The job that the stream listens to has changed.
  virtual void OnJobChanged() {}
  // Called regularly, for timeouts.
  virtual void OnTick() {}
};

// A worker's session.
class SessionPort {
 public:
  virtual ~SessionPort() = default;
  virtual void Send(v1alpha1::CoordinatorMessage message) = 0;
  virtual void End(const absl::Status& status) = 0;
  // The registered worker; empty before.
  virtual const std::string& worker() const = 0;
  // Whether the worker could not be silent since the last call: a message of any kind arrived, or
  // nobody listened, because an earlier message still waits for the loop.
  virtual bool Heard() = 0;
  // When the oldest message arrived that has not renewed the lease yet, on the monotonic clock;
  // nothing if there is none. The lease is renewed now, so the next call does not return it again.
  virtual std::optional<absl::Duration> TakeArrival() = 0;
};

// Receives the requested chunks of a log or a trace.
class RunFilePort {
 public:
  virtual ~RunFilePort() = default;
  virtual void OnLogData(const v1alpha1::LogData& data) = 0;
  virtual void OnSessionEnded(int64_t stream) = 0;
};

class Hub final : public coordinator::Transport {
 public:
  // Borrows all arguments; they must outlive the hub.
  Hub(Loop& loop, const Clock& clock, telemetry::Telemetry& telemetry, telemetry::AuditLog& audit,
      const Limits& limits)
      : loop_(loop), clock_(clock), telemetry_(telemetry), audit_(audit), limits_(limits) {}
  // The driver needs its transport and the hub its driver: call this before anything else.
  void SetDriver(coordinator::Driver& driver);
  // Before the first call; without it nobody has a token.
  void SetCallers(std::shared_ptr<const tls::Callers> callers) { callers_ = std::move(callers); }
  const tls::Callers* callers() const { return callers_.get(); }  // may be null; thread-safe

  Loop& loop() { return loop_; }
  coordinator::Driver& driver() { return *driver_; }
  Rendezvous& rendezvous() { return rendezvous_; }
  const Limits& limits() const { return limits_; }
  // For deadlines of calls.
  absl::Duration Monotonic() const { return clock_.Monotonic(); }
  coordinator::Result Submit(const coordinator::Event& event) {
    return driver_->Submit(event, {.wall = clock_.Now(), .steady = clock_.Monotonic()});
  }

  // Thread-safe.
  void Audit(const telemetry::AuditEntry& entry) {
    if (entry.result == "OK") return audit_.Write(entry, clock_.Now());
    audit_.WriteRefused(entry, clock_.Now(), clock_.Monotonic());
  }

  // ---- jobs
  // As people see it (queue_view.h).
  std::optional<coordinator::JobRecord> FindJob(const std::string& id);
  JobHistory& HistoryOf(const coordinator::JobRecord& record) { return histories_.Of(record); }
  // The job with progress and profile.
  v1alpha1::Job Describe(const coordinator::JobRecord& record);

  // ---- streams
  void Add(Stream* stream) { streams_.insert(stream); }
  void Remove(Stream* stream);
  UserStreams& user_streams() { return user_streams_; }
  void Listen(const std::string& job_id, Stream* stream) { listeners_[job_id].insert(stream); }
  // Ends all streams; for shutting down.
  void CloseAll(const absl::Status& status);
  // Ends the streams of callers whose certificate is revoked, or whose token is or has expired.
  void CloseRefused(const tls::Callers& callers);
  // Renews the leases of workers that were heard since the last one, then tells the core that time
  // has passed.
  void Tick();

  // ---- sessions of workers
  int64_t OpenSession(SessionPort* port);
  // Also tells the core and the log streams. `worker` is empty if it never registered.
  void CloseSession(int64_t session, const std::string& worker);
  // Renews the worker's lease, and measures for how long its message has waited for that. The
  // caller ends the session with an error.
  absl::Status Renew(const coordinator::WorkerHeartbeat& heartbeat, SessionPort& port);
  // The caller ends the session with an error.
  absl::Status OnReport(const v1alpha1::RankReport& report, const std::string& worker,
                        int64_t session);

  // ---- logs and traces
  // Sends `request`, completed with stream, job and rank, to the worker that has the rank; the
  // answer goes to `port` until CloseLog. Returns the number of the stream. Errors: UNAVAILABLE if
  // the worker is not connected.
  absl::StatusOr<int64_t> OpenLog(const coordinator::JobRecord& job, int32_t rank,
                                  v1alpha1::LogRequest request, RunFilePort* port);
  // Lets the worker send `records` more records of a trace.
  void GiveCredit(int64_t stream, int32_t records);
  void CloseLog(int64_t stream, bool cancel);
  void OnLogData(const v1alpha1::LogData& data, int64_t session);

  // ---- questions to workers
  // Sends `question` to that worker, or to another one if it is not connected; false: none is.
  // `done` gets the worker that was asked and its answer, later.
  bool Inspect(v1alpha1::Inspect question, const std::string& preferred,
               std::function<void(const std::string&, const v1alpha1::Inspection&)> done);
  void OnInspection(const v1alpha1::Inspection& answer, int64_t session) {
    inspections_.OnAnswer(session, answer);
  }

  // ---- coordinator::Transport
  void SendToWorker(const coordinator::Send& send) override;
  void JobChanged(const coordinator::JobRecord& job) override;
  void JobDeleted(const coordinator::ErasedJob& job) override;
  void WorkerChanged(const coordinator::Worker& worker) override;
  std::string FinalSummary(const coordinator::JobRecord& job) override;

 private:
  struct OpenedLog {
    RunFilePort* port;
    int64_t session;
  };
  void NotifyJob(const std::string& id);
  // Sends to the worker of an open stream, if its session is still open.
  void SendLogRequest(const OpenedLog& log, v1alpha1::LogRequest request);
  void CountSend(const coordinator::Send& send);
  // Instead of sending a message of `bytes` that the worker could not take: fails the job if it is
  // an assignment, and ends the session otherwise.
  void RefuseSend(const coordinator::Send& send, size_t bytes, SessionPort& port);
  void CountRestart(const coordinator::JobRecord& job);

  Loop& loop_;
  const Clock& clock_;
  telemetry::Telemetry& telemetry_;
  telemetry::AuditLog& audit_;
  const Limits limits_;
  coordinator::Driver* driver_ = nullptr;
  std::shared_ptr<const tls::Callers> callers_;  // shared with gRPC's processor

  Histories histories_;
  Rendezvous rendezvous_;
  std::set<Stream*> streams_;
  std::map<std::string, std::set<Stream*>> listeners_;  // by job id
  std::map<int64_t, SessionPort*> sessions_;
  std::map<int64_t, OpenedLog> logs_;  // by stream number
  Inspections inspections_;
  std::set<std::string> started_;  // uids of active jobs whose queue wait has been counted
  // By uid of a job that has restarted: the newest attempts that metrics have counted.
  struct Counted {
    int32_t placed = 0, training = 0;
  };
  std::map<std::string, Counted> restarts_;
  LineRate dropped_reports_;  // lines about them
  UserStreams user_streams_{limits_};
  int64_t last_session_ = 0;
  int64_t last_log_ = 0;
};

}  // namespace stretto::service
