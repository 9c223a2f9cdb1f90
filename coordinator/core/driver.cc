// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/driver.h"

#include <variant>

namespace stretto::coordinator {

Result Driver::Submit(const Event& event, absl::Time now) {
  const MutexLock lock(mu_);
  Effects effects = core_.Apply(event, now);
  if (!effects.status.ok()) return {.status = effects.status, .job_id = "", .fresh = false};
  const absl::Status stored = Persist(std::move(effects.persist));
  if (!stored.ok()) {
    core_.Undo();
    return {.status = stored, .job_id = "", .fresh = false};
  }
  for (const Send& send : effects.sends) transport_.SendToWorker(send);
  for (const std::string& id : effects.changed_workers) {
    transport_.WorkerChanged(*core_.FindWorker(id));
  }
  for (const std::string& id : effects.changed_jobs) transport_.JobChanged(*core_.FindJob(id));
  return {.status = absl::OkStatus(), .job_id = effects.job_id, .fresh = effects.fresh};
}

absl::Status Driver::Persist(std::vector<Record> records) {
  if (records.empty()) return absl::OkStatus();
  for (Record& record : records) {
    JobRecord* job = std::get_if<JobRecord>(&record);
    // Summaries are attached here and nowhere else: an ended job never changes again, so each job
    // passes this line once as ended.
    if (job == nullptr || !IsEnded(job->state)) continue;
    *job = core_.AttachSummary(job->id, transport_.FinalSummary(*job));
  }
  std::vector<Record> batch = Repairs();
  batch.insert(batch.end(), records.begin(), records.end());
  absl::Status stored = persistence_.Commit(batch);
  if (stored.ok()) {
    unsure_jobs_.clear();
    unsure_workers_.clear();
    return stored;
  }
  for (const Record& record : records) {
    if (const auto* job = std::get_if<JobRecord>(&record)) unsure_jobs_.insert(job->id);
    if (const auto* worker = std::get_if<WorkerRecord>(&record)) unsure_workers_.insert(worker->id);
  }
  return stored;
}

std::vector<Record> Driver::Repairs() const {
  std::vector<Record> repairs;
  if (!unsure_jobs_.empty()) repairs.emplace_back(EpochRecord{core_.last_epoch()});
  for (const std::string& id : unsure_jobs_) {
    const JobRecord* job = core_.FindJob(id);
    if (job == nullptr) {
      repairs.emplace_back(JobErased{id});
    } else {
      repairs.emplace_back(*job);
    }
  }
  for (const std::string& id : unsure_workers_) {
    // A worker that the core does not know may stay in the store: a coordinator that reads it takes
    // it as LOST.
    const Worker* worker = core_.FindWorker(id);
    if (worker != nullptr) repairs.emplace_back(worker->record);
  }
  return repairs;
}

}  // namespace stretto::coordinator
