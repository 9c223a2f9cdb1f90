// SPDX-License-Identifier: Apache-2.0

// The frame of the state machine: it applies an event, collects its effects and can undo it. This
// file also has the requests of users and access to jobs; sessions.cc has the sessions of workers,
// workers.cc their cordons, reports.cc the ranks, lifecycle.cc the transitions of a job, and
// attempts.cc the end of an attempt and the wait for the next. Every change of a job or of the
// membership goes through Touch, Change or ChangeWorker, which save the old value first. So Undo,
// and the answer to a refused event, restore exactly the state before the event.

#include "coordinator/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// What a person asks for by an event, as the reason of a job's event, and who; else nothing.
std::pair<std::string, std::string> RequestOf(const Event& event) {
  if (const auto* create = std::get_if<CreateJob>(&event)) return {"Created", create->caller};
  if (const auto* cancel = std::get_if<CancelJob>(&event)) return {"CancelAsked", cancel->caller};
  if (const auto* save = std::get_if<CheckpointJob>(&event))
    return {"CheckpointAsked", save->caller};
  if (const auto* pause = std::get_if<SuspendJob>(&event)) return {"SuspendAsked", pause->caller};
  if (const auto* resume = std::get_if<ResumeJob>(&event)) return {"ResumeAsked", resume->caller};
  return {};
}

}  // namespace

Core::Core(CoreOptions options)
    : options_(std::move(options)), membership_(options_.lease), index_(options_.quotas) {}

Effects Core::Apply(const Event& event, Moment now) {
  now_ = now.wall;
  steady_ = now.steady;
  undo_ = {};
  undo_.last_placing = last_placing_;
  changed_jobs_.clear();
  changed_workers_.clear();
  effects_ = {};
  const Epoch epoch_before = epoch_.last;
  absl::Status status = std::visit([this](const auto& e) { return Handle(e); }, event);
  if (!status.ok()) {
    Undo();
    Effects refused;
    refused.status = std::move(status);
    return refused;
  }
  CollectRecords(event, epoch_before);
  return std::move(effects_);
}

void Core::CollectRecords(const Event& event, Epoch epoch_before) {
  Reindex();
  const auto [request, caller] = RequestOf(event);
  for (const std::string& id : changed_jobs_) {
    const bool asked = id == effects_.job_id;
    const std::optional<Job>& before = undo_.jobs.at(id);
    NoteChanges(before ? &before->record : nullptr, now_, asked ? request : "", asked ? caller : "",
                &jobs_.at(id).record);
  }
  if (epoch_.last != epoch_before) effects_.persist.emplace_back(epoch_);
  for (const std::string& id : changed_workers_) {
    effects_.persist.emplace_back(membership_.Find(id)->record);
  }
  for (const ErasedJob& job : effects_.erased_jobs) {
    effects_.persist.emplace_back(JobErased{job.id});
  }
  for (const auto& [id, before] : undo_.retired) {
    if (!before) changed_jobs_.insert(id);
  }
  for (const std::string& id : changed_jobs_) effects_.persist.emplace_back(*FindJob(id));
  effects_.changed_jobs.assign(changed_jobs_.begin(), changed_jobs_.end());
  effects_.changed_workers.assign(changed_workers_.begin(), changed_workers_.end());
}

void Core::Undo() {
  for (auto& [id, old] : undo_.retired) {
    retired_.Erase(id);
    if (old.has_value()) retired_.Put(*std::move(old));
  }
  for (auto& [id, old] : undo_.jobs) {
    if (old.has_value() && !jobs_.contains(id)) {
      Insert(*std::move(old));
      continue;
    }
    if (old.has_value()) {
      // The event may have ended the job and so removed it from live_, or resumed it.
      if (IsEnded(old->record.state)) {
        live_.erase(old->record.number);
      } else {
        live_[old->record.number] = id;
      }
      index_.Put(old->record);
      jobs_[id] = *std::move(old);
      continue;
    }
    const JobRecord& added = Get(id);
    index_.Remove(added.number);
    id_by_uid_.erase(added.uid);
    id_by_number_.erase(added.number);
    live_.erase(added.number);
    if (!added.request_id.empty()) id_by_request_.erase(added.request_id);
    jobs_.erase(id);
  }
  if (!undo_.workers.empty()) ++worker_changes_;
  queue_changed_ |= !undo_.jobs.empty() || !undo_.workers.empty();
  for (auto& [id, old] : undo_.workers) membership_.Reset(id, std::move(old));
  last_placing_ = undo_.last_placing;
  undo_ = {};
}

const JobRecord& Core::AttachSummary(const std::string& job_id, std::string summary) {
  if (const JobRecord* retired = retired_.Find(job_id)) {
    JobRecord job = *retired;
    job.summary = std::move(summary);
    retired_.Put(std::move(job));
    return *retired_.Find(job_id);
  }
  JobRecord& job = Touch(job_id).record;
  job.summary = std::move(summary);
  return job;
}

// ---- requests

absl::Status Core::Handle(const CreateJob& event) {
  const int32_t ranks = event.gang.ranks();
  STRETTO_CHECK(ranks >= 1);
  if (const auto known = id_by_request_.find(event.request_id); known != id_by_request_.end()) {
    if (Get(known->second).fingerprint != event.fingerprint) {
      return absl::AlreadyExistsError(absl::StrCat("request_id \"", event.request_id,
                                                   "\" has already created job \"", known->second,
                                                   "\" from another request body"));
    }
    effects_.job_id = known->second;
    return absl::OkStatus();
  }
  if (const JobRecord* holder = FindJob(event.job_id)) {
    return absl::AlreadyExistsError(
        absl::StrCat("job \"", event.job_id, "\" already exists (", JobStateName(holder->state),
                     holder->retire_time ? ", retired); delete it to free its name" : ")"));
  }
  const int64_t known_slots = Slots().KnownSlots(event.device_kind);
  if (!workers().empty() && known_slots < ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" needs ", CountOf(ranks, event.device_kind),
                     "; this cluster has ", known_slots, " on ", workers().size(),
                     workers().size() == 1 ? " worker" : " workers",
                     FaultyNote(FaultySlots(ClusterView(), event.device_kind))));
  }
  RETURN_IF_ERROR(CheckQuota(event.project, ranks, event.spec));
  effects_.job_id = event.job_id;
  if (event.validate_only) return absl::OkStatus();
  STRETTO_CHECK(!id_by_uid_.contains(event.uid));
  JobRecord record;
  record.id = event.job_id;
  record.uid = event.uid;
  record.spec = event.spec;
  record.gang = event.gang;
  record.fallbacks = event.fallbacks;
  record.device_kind = event.device_kind;
  record.total_steps = event.total_steps;
  record.restart = event.restart;
  record.priority = event.priority;
  record.project = event.project;
  record.labels = event.labels;
  record.owner = event.owner;
  record.saves = event.saves;
  record.request_id = event.request_id;
  record.fingerprint = event.fingerprint;
  record.number = ++last_number_;
  record.create_time = now_;
  undo_.jobs.emplace(event.job_id, std::nullopt);
  Insert({.record = std::move(record), .acked = {}});
  changed_jobs_.insert(event.job_id);
  ShowLayouts(event.job_id);
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Core::Handle(const CancelJob& event) {
  const JobRecord* job = FindJob(event.job_id);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("no job \"", event.job_id, "\""));
  if (IsEnded(job->state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" has already ended as ", JobStateName(job->state),
                     "; only a job that has not ended can be cancelled"));
  }
  effects_.job_id = event.job_id;
  if (job->state == JobState::kCancelling) return absl::OkStatus();
  if (!IsActive(job->state)) {
    End(event.job_id, JobState::kCancelled, NameOf(ExitReason::kCancelled),
        job->attempt == 0 ? "cancelled before it was placed"
                          : absl::StrCat("cancelled after ", job->steps_done(), " of ",
                                         job->total_steps, " steps"));
    PlaceQueued();
    return absl::OkStatus();
  }
  Change(event.job_id).state = JobState::kCancelling;
  if (job->stop_reason.empty()) Stop(event.job_id, NameOf(ExitReason::kCancelled));
  return absl::OkStatus();
}

absl::Status Core::Handle(const DeleteJob& event) {
  const JobRecord* job = FindJob(event.job_id);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("no job \"", event.job_id, "\""));
  if (!IsEnded(job->state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" is ", JobStateName(job->state),
                     "; only a job that has ended can be deleted: cancel it first"));
  }
  effects_.job_id = event.job_id;
  Erase(event.job_id);
  return absl::OkStatus();
}

absl::Status Core::Handle(const ForgetWorker& event) {
  const Worker* worker = FindWorker(event.id);
  if (worker == nullptr) return absl::NotFoundError(absl::StrCat("no worker \"", event.id, "\""));
  if (worker->ready()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker \"", event.id,
                     "\" is READY; only a LOST worker can be forgotten: stop its daemon"));
  }
  if (const std::vector<std::string> jobs = JobsOn(event.id); !jobs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker \"", event.id, "\" has ranks of job ", absl::StrJoin(jobs, ", "),
                     "; expected a worker without ranks: wait until the job has ended"));
  }
  ChangeWorker(event.id).Reset(event.id, std::nullopt);
  changed_workers_.erase(event.id);
  effects_.persist.emplace_back(WorkerErased{event.id});
  PlaceQueued();
  return absl::OkStatus();
}

// ---- access

void Core::Insert(Job job) {
  const std::string id = job.record.id;
  const JobRecord& record = job.record;
  queue_changed_ = true;
  id_by_uid_[record.uid] = id;
  id_by_number_[record.number] = id;
  if (!record.request_id.empty()) id_by_request_[record.request_id] = id;
  if (!IsEnded(record.state)) live_[record.number] = id;
  index_.Put(record);
  jobs_.emplace(id, std::move(job));
}

Core::Job& Core::Touch(const std::string& id) {
  Job& job = jobs_.at(id);
  undo_.jobs.emplace(id, job);
  return job;
}

JobRecord& Core::Change(const std::string& id) {
  changed_jobs_.insert(id);
  queue_changed_ = true;
  return Touch(id).record;
}

Membership& Core::ChangeWorker(const std::string& id) {
  const Worker* worker = membership_.Find(id);
  undo_.workers.emplace(id, worker == nullptr ? std::nullopt : std::optional(*worker));
  changed_workers_.insert(id);
  queue_changed_ = true;
  ++worker_changes_;  // before the change: nobody looks until then
  return membership_;
}

void Core::Reindex() {
  for (const std::string& id : changed_jobs_) index_.Put(Get(id));
  for (const auto& [slot, held] : index_.TakeSlotChanges()) {
    if (slots_) slots_->first.SetFree({slot}, !held);
  }
}

}  // namespace stretto::coordinator
