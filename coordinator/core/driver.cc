// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/driver.h"

#include <variant>

#include "absl/status/status.h"

namespace stretto::coordinator {
namespace {

// What callers learn of a commit that failed. Other codes of a store (a locked file, a constraint,
// a folder that cannot be written) mean something else to them: FAILED_PRECONDITION ends a daemon,
// ABORTED drops its report, ALREADY_EXISTS is a job of the same name.
absl::Status OfStore(const absl::Status& stored) {
  if (absl::IsResourceExhausted(stored) || absl::IsDataLoss(stored)) return stored;
  return absl::UnavailableError(stored.message());
}

}  // namespace

Result Driver::Submit(const Event& event, Moment now) {
  const MutexLock lock(mu_);
  const absl::Duration monotonic = now.steady;
  if (std::holds_alternative<Tick>(event)) {
    if (clock_.stopped()) {
      // The epoch is always right to store, and so finds out whether the store works again.
      const absl::Status works = Persist({EpochRecord{core_.last_epoch()}}, {}, monotonic);
      clock_.SkipTick(monotonic);
      return {.status = works, .job_id = "", .fresh = false};
    }
    if (!clock_.Tick(monotonic)) return {};
  }
  Effects effects = core_.Apply(event, {.wall = now.wall, .steady = clock_.At(monotonic)});
  if (!effects.status.ok()) return {.status = effects.status, .job_id = "", .fresh = false};
  const absl::Status stored = Persist(std::move(effects.persist), effects.summaries, monotonic);
  if (!stored.ok()) {
    core_.Undo();
    // The worker waits for seconds before it comes again, in which the store may work and its lease
    // counts.
    if (const auto* registered = std::get_if<WorkerRegistered>(&event))
      core_.NoteContact(registered->id, clock_.At(monotonic));
    return {.status = stored, .job_id = "", .fresh = false};
  }
  for (const Send& send : effects.sends) transport_.SendToWorker(send);
  for (const std::string& id : effects.changed_workers) {
    transport_.WorkerChanged(*core_.FindWorker(id));
  }
  for (const ErasedJob& job : effects.erased_jobs) transport_.JobDeleted(job);
  for (const std::string& id : effects.changed_jobs) transport_.JobChanged(*core_.FindJob(id));
  return {.status = absl::OkStatus(), .job_id = effects.job_id, .fresh = effects.fresh};
}

absl::Status Driver::Persist(std::vector<Record> records, const std::set<std::string>& summaries,
                             absl::Duration monotonic) {
  if (records.empty()) return absl::OkStatus();
  for (Record& record : records) {
    JobRecord* job = std::get_if<JobRecord>(&record);
    if (job == nullptr || !summaries.contains(job->id)) continue;
    *job = core_.AttachSummary(job->id, transport_.FinalSummary(*job));
  }
  std::vector<Record> batch = Repairs();
  batch.insert(batch.end(), records.begin(), records.end());
  absl::Status stored = persistence_.Commit(batch);
  if (stored.ok()) {
    unsure_jobs_.clear();
    unsure_workers_.clear();
    if (clock_.stopped()) clock_.Continue(monotonic);
    return stored;
  }
  if (!clock_.stopped()) clock_.Stop(monotonic);
  for (const Record& record : records) {
    if (const auto* job = std::get_if<JobRecord>(&record)) unsure_jobs_.insert(job->id);
    if (const auto* job = std::get_if<JobErased>(&record)) unsure_jobs_.insert(job->id);
    if (const auto* worker = std::get_if<WorkerRecord>(&record)) unsure_workers_.insert(worker->id);
    if (const auto* worker = std::get_if<WorkerErased>(&record)) unsure_workers_.insert(worker->id);
  }
  return OfStore(stored);
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
    const Worker* worker = core_.FindWorker(id);
    if (worker == nullptr) {
      repairs.emplace_back(WorkerErased{id});
    } else {
      repairs.emplace_back(worker->record);
    }
  }
  return repairs;
}

}  // namespace stretto::coordinator
