// SPDX-License-Identifier: Apache-2.0

// Routes events to the core, messages of the core to the sessions of workers, reports to the
// histories, and changes of a job to the streams that listen. Lists of streams are copied before
// they are walked, because a stream may remove itself while it is notified.

#include "coordinator/service/hub.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/queue_view.h"
#include "coordinator/core/restart.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/errors.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/tls/callers.h"

namespace stretto::service {

using coordinator::Core;
using coordinator::JobRecord;

// What happened before this process began is not counted again.
void Hub::SetDriver(coordinator::Driver& driver) {
  driver_ = &driver;
  using coordinator::RestartCause;
  for (const auto cause : {RestartCause::kCrash, RestartCause::kNodeLoss, RestartCause::kHang,
                           RestartCause::kOutOfMemory, RestartCause::kPreemption}) {
    telemetry_.AddRestarts(coordinator::NameOf(cause), 0);
  }
  driver.Read([this](const Core& core) {
    for (const JobRecord* job : core.Jobs()) {
      if (coordinator::IsEnded(job->state)) continue;
      const bool trains = job->state == coordinator::JobState::kRunning;
      restarts_[job->uid] = {job->attempt, trains ? job->attempt : job->attempt - 1};
    }
    return 0;
  });
}

// ---- jobs

std::optional<JobRecord> Hub::FindJob(const std::string& id) {
  return driver_->Read([&id](const Core& core) -> std::optional<JobRecord> {
    const JobRecord* record = core.FindJob(id);
    if (record == nullptr) return std::nullopt;
    return coordinator::QueueView(core).Shown(*record);
  });
}

v1alpha1::Job Hub::Describe(const JobRecord& record) {
  v1alpha1::Job job = ToProto(record);
  histories_.Describe(record, &job);
  return job;
}

void Hub::NotifyJob(const std::string& id) {
  const auto it = listeners_.find(id);
  if (it == listeners_.end()) return;
  const std::set<Stream*> listeners = it->second;
  for (Stream* stream : listeners) stream->OnJobChanged();
}

// ---- streams

void Hub::Remove(Stream* stream) {
  streams_.erase(stream);
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    it->second.erase(stream);
    it = it->second.empty() ? listeners_.erase(it) : std::next(it);
  }
}

void Hub::CloseAll(const absl::Status& status) {
  const std::set<Stream*> streams = streams_;
  for (Stream* stream : streams) stream->Close(status);
  inspections_.EndAll();
}

void Hub::CloseRefused(const tls::Callers& callers) {
  const std::set<Stream*> streams = streams_;
  for (Stream* stream : streams) {
    const absl::Status status = callers.Check(stream->credential());
    if (status.ok()) continue;
    stream->Close(
        WithReason(status, stream->credential().token ? "TOKEN_ENDED" : "CERTIFICATE_REVOKED"));
  }
}

void Hub::Tick() {
  for (const auto& [session, port] : sessions_) {
    if (!port->Heard() || port->worker().empty()) continue;
    // A refusal is for the session itself, whose next message gets it too.
    Renew({port->worker(), session}, *port).IgnoreError();
  }
  const absl::Status status = Submit(coordinator::Tick{}).status;
  if (!status.ok()) spdlog::error("tick not stored, will try again: {}", status.ToString());
  const std::set<Stream*> streams = streams_;
  for (Stream* stream : streams) stream->OnTick();
  inspections_.OnTick(clock_.Monotonic());
  audit_.WriteLeftOut(clock_.Now(), clock_.Monotonic());
}

// ---- sessions of workers

int64_t Hub::OpenSession(SessionPort* port) {
  sessions_.emplace(++last_session_, port);
  return last_session_;
}

void Hub::CloseSession(int64_t session, const std::string& worker) {
  sessions_.erase(session);
  std::vector<std::pair<int64_t, RunFilePort*>> broken;
  for (const auto& [stream, log] : logs_) {
    if (log.session == session) broken.emplace_back(stream, log.port);
  }
  for (const auto& [stream, port] : broken) port->OnSessionEnded(stream);
  inspections_.OnSessionEnded(session);
  if (worker.empty()) return;
  const absl::Status status = Submit(coordinator::WorkerDisconnected{worker, session}).status;
  if (!status.ok()) {
    spdlog::error("loss of a session not stored, its lease will end worker={}: {}", worker,
                  status.ToString());
  }
}

absl::Status Hub::Renew(const coordinator::WorkerHeartbeat& heartbeat, SessionPort& port) {
  RETURN_IF_ERROR(Submit(heartbeat).status);
  if (const std::optional<absl::Duration> arrival = port.TakeArrival()) {
    telemetry_.LeaseRenewed(clock_.Monotonic() - *arrival);
  }
  return absl::OkStatus();
}

absl::Status Hub::OnReport(const v1alpha1::RankReport& report, const std::string& worker,
                           int64_t session) {
  auto event = FromProto(report, worker, session);
  if (!event.ok()) return event.status();
  const coordinator::Result result = Submit(*event);
  if (absl::IsNotFound(result.status) || absl::IsAborted(result.status)) {
    // The job, attempt or session no longer exists, so nobody waits for the report.
    if (const auto left_out = dropped_reports_.Admit(clock_.Monotonic())) {
      spdlog::warn("report dropped worker={}: {}{}", worker, std::string(result.status.message()),
                   LeftOutNote(*left_out));
    }
    return absl::OkStatus();
  }
  // A daemon connects again after ABORTED, and replays.
  if (absl::IsOutOfRange(result.status)) return absl::AbortedError(result.status.message());
  // An error ends the session. A repeat is already in the history.
  if (!result.status.ok() || !result.fresh) return result.status;
  const v1alpha1::RankPrepared& prepared = report.prepared();
  const bool step = report.has_step(), profile = report.has_profile(),
             chosen = prepared.merged_wgrads() > 0 || prepared.warm_ups_size() > 0 ||
                      prepared.epoch_sequences() > 0;
  const bool dropped = report.dropped().has_ledger();
  if (!step && !profile && !chosen && !dropped && !report.has_samples()) return absl::OkStatus();
  auto record = driver_->Read([&report](const Core& core) -> std::optional<JobRecord> {
    const JobRecord* found = core.FindJobByUid(report.job_uid());
    if (found == nullptr) return std::nullopt;
    return *found;
  });
  if (!record) return absl::OkStatus();
  JobHistory& history = histories_.Of(*record);
  if (dropped) history.AddDropped(report.rank(), report.dropped().ledger());
  if (step) {
    v1alpha1::StepReport named = report.step();
    named.set_attempt(record->attempt);
    history.AddStep(report.rank(), named);
  }
  if (profile) history.SetProfile(report.profile());
  if (chosen) history.SetChoices(prepared);
  if (report.has_samples()) history.AddSamples(report.samples());
  NotifyJob(record->id);
  return absl::OkStatus();
}

// ---- logs and traces

absl::StatusOr<int64_t> Hub::OpenLog(const JobRecord& job, int32_t rank,
                                     v1alpha1::LogRequest request, RunFilePort* port) {
  const std::string& worker = job.ranks.at(rank).worker;
  const int64_t session = driver_->Read([&worker](const Core& core) -> int64_t {
    const coordinator::Worker* found = core.FindWorker(worker);
    return found != nullptr && found->ready() ? found->session : 0;
  });
  // The driver may name a session that ended after it was read: then the worker is not connected
  // either.
  if (sessions_.count(session) == 0) {
    return WithReason(
        absl::UnavailableError(absl::StrCat("worker ", worker, ", which holds the ",
                                            request.has_trace() ? "trace" : "log", " of rank ",
                                            rank, " of job ", job.id, ", is not connected")),
        "WORKER_NOT_CONNECTED", {{"worker", worker}, {"job", job.id}});
  }
  request.set_stream(++last_log_);
  request.set_job_uid(job.uid);
  request.set_epoch(job.epoch.value());
  request.set_rank(rank);
  const auto log = logs_.emplace(last_log_, OpenedLog{port, session}).first;
  SendLogRequest(log->second, std::move(request));
  return last_log_;
}

void Hub::SendLogRequest(const OpenedLog& log, v1alpha1::LogRequest request) {
  const auto session = sessions_.find(log.session);
  if (session == sessions_.end()) return;
  v1alpha1::CoordinatorMessage message;
  *message.mutable_log_request() = std::move(request);
  session->second->Send(std::move(message));
}

void Hub::GiveCredit(int64_t stream, int32_t records) {
  const auto log = logs_.find(stream);
  if (log == logs_.end()) return;
  v1alpha1::LogRequest request;
  request.set_stream(stream);
  request.set_credit(records);
  SendLogRequest(log->second, std::move(request));
}

void Hub::CloseLog(int64_t stream, bool cancel) {
  const auto found = logs_.find(stream);
  if (found == logs_.end()) return;
  const OpenedLog log = found->second;
  logs_.erase(found);
  if (!cancel) return;
  v1alpha1::LogRequest request;
  request.set_stream(stream);
  request.set_cancel(true);
  SendLogRequest(log, std::move(request));
}

void Hub::OnLogData(const v1alpha1::LogData& data, int64_t session) {
  const auto log = logs_.find(data.stream());
  if (log == logs_.end() || log->second.session != session) return;
  log->second.port->OnLogData(data);
}

// ---- questions to workers

bool Hub::Inspect(v1alpha1::Inspect question, const std::string& preferred,
                  std::function<void(const std::string&, const v1alpha1::Inspection&)> done) {
  const std::pair<const int64_t, SessionPort*>* chosen = nullptr;
  for (const auto& session : sessions_) {
    const std::string& worker = session.second->worker();
    if (worker.empty()) continue;
    if (chosen == nullptr || worker == preferred) chosen = &session;
  }
  if (chosen == nullptr) return false;
  const auto& [session, port] = *chosen;
  question.set_id(inspections_.Add(
      session, clock_.Monotonic() + absl::Seconds(limits::kInspectionSeconds.value),
      [worker = port->worker(), done = std::move(done)](const v1alpha1::Inspection& answer) {
        done(worker, answer);
      }));
  v1alpha1::CoordinatorMessage message;
  *message.mutable_inspect() = std::move(question);
  port->Send(std::move(message));
  return true;
}

// ---- coordinator::Transport

void Hub::SendToWorker(const coordinator::Send& send) {
  CountSend(send);
  const auto it = sessions_.find(send.session);
  if (it == sessions_.end()) return;
  if (const auto* close = std::get_if<coordinator::CloseSession>(&send.message)) {
    it->second->End(close->status);
  } else {
    v1alpha1::CoordinatorMessage message = ToProto(send);
    const size_t bytes = message.ByteSizeLong();
    if (static_cast<int64_t>(bytes) > limits_.max_message_bytes) {
      return RefuseSend(send, bytes, *it->second);
    }
    it->second->Send(std::move(message));
  }
}

// A message that the worker's gRPC refuses would end its session, and the next one, for as long as
// the job lives.
void Hub::RefuseSend(const coordinator::Send& send, size_t bytes, SessionPort& port) {
  const std::string found = absl::StrCat("found ", bytes, " bytes for worker ", send.worker,
                                         ", expected at most ", limits_.max_message_bytes);
  spdlog::error("message not sent: {}", found);
  const auto* assign = std::get_if<coordinator::SendAssign>(&send.message);
  if (assign == nullptr) return port.End(absl::ResourceExhaustedError(found));
  loop_.Post([this, event = coordinator::AssignmentRefused{
                        .worker = send.worker,
                        .job_uid = assign->job_uid,
                        .epoch = assign->epoch,
                        .message = absl::StrCat("the assignment is too long: ", found)}] {
    const absl::Status status = Submit(event).status;
    if (!status.ok()) spdlog::error("refused assignment not stored: {}", status.ToString());
  });
}

void Hub::CountSend(const coordinator::Send& send) {
  if (std::holds_alternative<coordinator::SendRegistered>(send.message)) telemetry_.SessionOpened();
  const auto* close = std::get_if<coordinator::CloseSession>(&send.message);
  if (close != nullptr && absl::IsUnavailable(close->status)) telemetry_.LeaseExpired();
}

void Hub::JobChanged(const JobRecord& job) {
  if (job.retire_time) {
    spdlog::info("job={} state={} retired", job.id, coordinator::JobStateName(job.state));
    return loop_.Post([this, id = job.id, uid = job.uid] {
      histories_.Forget(uid);
      NotifyJob(id);
    });
  }
  spdlog::info("job={} state={} attempt={} epoch={}", job.id, coordinator::JobStateName(job.state),
               job.attempt, job.epoch.value());
  CountRestart(job);
  // Answering the waiters calls back into gRPC, which must not happen under the driver's lock.
  const int64_t over = coordinator::IsActive(job.state) ? job.epoch.value() - 1 : job.epoch.value();
  loop_.Post([this, uid = job.uid, over] { rendezvous_.EndAttempts(uid, over); });
  if (coordinator::IsEnded(job.state)) {
    started_.erase(job.uid);
    restarts_.erase(job.uid);
  } else if (job.state == coordinator::JobState::kPreparing && job.attempt == 1 &&
             started_.insert(job.uid).second) {
    telemetry_.QueueWaited(clock_.Now() - job.create_time);
  }
  loop_.Post([this, id = job.id] { NotifyJob(id); });
}

// Condition Restarting is TRUE from a failure until the next attempt trains. An attempt that a
// person asked for is no restart.
void Hub::CountRestart(const JobRecord& job) {
  if (job.attempts.size() < 2 || !coordinator::IsActive(job.state)) return;
  const coordinator::AttemptRecord& before = job.attempts[job.attempts.size() - 2];
  const coordinator::Condition* restarting = job.FindCondition("Restarting");
  if (restarting == nullptr || !before.first_failure.has_value()) return;
  Counted& counted = restarts_[job.uid];
  if (restarting->status == coordinator::ConditionStatus::kTrue && counted.placed < job.attempt) {
    counted.placed = job.attempt;
    telemetry_.AddRestarts(coordinator::NameOf(before.cause), 1);
  }
  const bool trains = job.state == coordinator::JobState::kRunning;
  if (!trains || counted.placed < job.attempt || counted.training >= job.attempt) return;
  counted.training = job.attempt;
  telemetry_.TrainsAgain(clock_.Now() - before.first_failure->time);
}

void Hub::JobDeleted(const coordinator::ErasedJob& job) {
  spdlog::info("job={} deleted", job.id);
  loop_.Post([this, job] {
    histories_.Forget(job.uid);
    NotifyJob(job.id);
  });
}

void Hub::WorkerChanged(const coordinator::Worker& worker) {
  std::string faulty;
  for (const coordinator::WorkerDevice& device : worker.record.devices) {
    if (device.fault.empty()) continue;
    absl::StrAppend(&faulty, " slot ", device.slot, " is faulty: ", device.fault, ";");
  }
  if (!worker.record.cordon.empty()) {
    absl::StrAppend(&faulty, " cordoned: ", worker.record.cordon);
  }
  spdlog::info("worker={} state={} incarnation={} slots={}{}", worker.record.id,
               worker.ready() ? "READY" : "LOST", worker.record.incarnation,
               worker.record.devices.size(), faulty);
}

std::string Hub::FinalSummary(const JobRecord& job) {
  if (job.retire_time) return JobHistory::Shortened(job.summary.str());
  return histories_.Of(job).Summary(job);
}

}  // namespace stretto::service
