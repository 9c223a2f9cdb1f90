// SPDX-License-Identifier: Apache-2.0

// The frame of the state machine: it applies an event, collects its effects and can undo it. This
// file also has the requests of users and access to jobs; sessions.cc has the workers, reports.cc
// the ranks, and lifecycle.cc the transitions of a job. Every change of a job or of the membership
// goes through Touch, Change or ChangeMembership, which save the old value first. So Undo, and the
// answer to a refused event, restore exactly the state before the event.

#include "coordinator/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {

Core::Core(CoreOptions options) : options_(options), membership_(options.lease) {}

Effects Core::Apply(const Event& event, absl::Time now) {
  now_ = std::max(now_, now);
  undo_ = {};
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
  CollectRecords(epoch_before);
  return std::move(effects_);
}

void Core::CollectRecords(Epoch epoch_before) {
  if (epoch_.last != epoch_before) effects_.persist.emplace_back(epoch_);
  for (const std::string& id : changed_workers_) {
    effects_.persist.emplace_back(membership_.Find(id)->record);
  }
  for (const std::string& id : changed_jobs_) effects_.persist.emplace_back(Get(id));
  effects_.changed_jobs.assign(changed_jobs_.begin(), changed_jobs_.end());
  effects_.changed_workers.assign(changed_workers_.begin(), changed_workers_.end());
}

void Core::Undo() {
  for (auto& [id, old] : undo_.jobs) {
    if (old.has_value()) {
      // The event may have ended the job and so removed it from live_.
      if (!IsEnded(old->record.state)) live_[old->record.number] = id;
      jobs_[id] = *std::move(old);
      continue;
    }
    const JobRecord& added = Get(id);
    id_by_uid_.erase(added.uid);
    id_by_number_.erase(added.number);
    live_.erase(added.number);
    if (!added.request_id.empty()) id_by_request_.erase(added.request_id);
    jobs_.erase(id);
  }
  if (undo_.membership.has_value()) membership_ = *std::move(undo_.membership);
  undo_ = {};
}

const JobRecord& Core::AttachSummary(const std::string& job_id, std::string summary) {
  JobRecord& job = Touch(job_id).record;
  STRETTO_CHECK(IsEnded(job.state));
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
  if (jobs_.contains(event.job_id)) {
    return absl::AlreadyExistsError(absl::StrCat("job \"", event.job_id, "\" already exists (",
                                                 JobStateName(Get(event.job_id).state), ")"));
  }
  const std::vector<WorkerView> cluster = ClusterView();
  const int32_t known_slots = KnownSlots(cluster, event.device_kind);
  if (!workers().empty() && known_slots < ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", event.job_id, "\" needs ", CountOf(ranks, event.device_kind),
                     "; this cluster has ", known_slots, " on ", workers().size(),
                     workers().size() == 1 ? " worker" : " workers",
                     FaultyNote(FaultySlots(cluster, event.device_kind))));
  }
  effects_.job_id = event.job_id;
  if (event.validate_only) return absl::OkStatus();
  STRETTO_CHECK(!id_by_uid_.contains(event.uid));
  JobRecord record;
  record.id = event.job_id;
  record.uid = event.uid;
  record.spec = event.spec;
  record.gang = event.gang;
  record.device_kind = event.device_kind;
  record.total_steps = event.total_steps;
  record.request_id = event.request_id;
  record.fingerprint = event.fingerprint;
  record.number = ++last_number_;
  record.create_time = now_;
  undo_.jobs.emplace(event.job_id, std::nullopt);
  Insert({.record = std::move(record), .acked = {}});
  changed_jobs_.insert(event.job_id);
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
  if (job->state == JobState::kPending) {
    End(event.job_id, JobState::kCancelled, NameOf(ExitReason::kCancelled),
        "cancelled before it was placed");
    PlaceQueued();
    return absl::OkStatus();
  }
  Change(event.job_id).state = JobState::kCancelling;
  if (job->stop_reason.empty()) Stop(event.job_id, NameOf(ExitReason::kCancelled));
  return absl::OkStatus();
}

// ---- access

void Core::Insert(Job job) {
  const std::string id = job.record.id;
  const JobRecord& record = job.record;
  id_by_uid_[record.uid] = id;
  id_by_number_[record.number] = id;
  if (!record.request_id.empty()) id_by_request_[record.request_id] = id;
  if (!IsEnded(record.state)) live_[record.number] = id;
  jobs_.emplace(id, std::move(job));
}

Core::Job& Core::Touch(const std::string& id) {
  Job& job = jobs_.at(id);
  undo_.jobs.emplace(id, job);
  return job;
}

JobRecord& Core::Change(const std::string& id) {
  changed_jobs_.insert(id);
  return Touch(id).record;
}

Membership& Core::ChangeMembership() {
  if (!undo_.membership.has_value()) undo_.membership = membership_;
  return membership_;
}

std::vector<QueuedJob> Core::Queue() const {
  std::vector<QueuedJob> queue;
  for (const auto& [number, id] : live_) {
    const JobRecord& job = Get(id);
    if (job.state != JobState::kPending) continue;
    queue.push_back({.id = id, .gang = job.gang, .kind = job.device_kind});
  }
  return queue;
}

std::vector<WorkerView> Core::ClusterView() const {
  std::set<std::pair<std::string, int32_t>> taken;
  for (const auto& [number, id] : live_) {
    for (const RankRecord& rank : Get(id).ranks) taken.emplace(rank.worker, rank.slot);
  }
  std::vector<WorkerView> view;
  for (const auto& [id, worker] : workers()) {
    WorkerView& added = view.emplace_back();
    added.id = id;
    added.ready = worker.ready();
    for (const WorkerDevice& device : worker.record.devices) {
      added.slots.push_back({.slot = device.slot,
                             .kind = device.kind,
                             .free = device.fault.empty() && !taken.contains({id, device.slot}),
                             .healthy = device.fault.empty()});
    }
  }
  return view;
}

}  // namespace stretto::coordinator
