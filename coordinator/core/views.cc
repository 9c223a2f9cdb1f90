// SPDX-License-Identifier: Apache-2.0

// Read access to the core, and its restoration from stored records.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/queue_view.h"

namespace stretto::coordinator {

absl::StatusOr<Core> Core::Restore(Snapshot snapshot, CoreOptions options, absl::Time now) {
  Core core(options);
  core.epoch_ = snapshot.epoch;
  core.cluster_id_ = std::move(snapshot.cluster_id);
  for (WorkerRecord& worker : snapshot.workers) core.membership_.Restore(std::move(worker));
  std::map<std::pair<std::string, int32_t>, std::string> holders;
  for (JobRecord& job : snapshot.jobs) {
    if (core.FindJob(job.id) != nullptr || core.id_by_uid_.contains(job.uid) ||
        core.id_by_number_.contains(job.number) || core.retired_.by_number().contains(job.number)) {
      return absl::DataLossError(absl::StrCat("stored job \"", job.id, "\" (uid ", job.uid,
                                              ", number ", job.number,
                                              ") repeats another stored job"));
    }
    if (job.epoch > core.epoch_.last) {
      return absl::DataLossError(absl::StrCat("stored job \"", job.id, "\" has epoch ",
                                              job.epoch.value(), ", after the newest stored epoch ",
                                              core.epoch_.last.value()));
    }
    if (IsActive(job.state)) {
      for (const RankRecord& rank : job.ranks) {
        // A repair may have lost its record. It is LOST like the others, and may come back.
        if (core.membership_.Find(rank.worker) == nullptr) {
          WorkerRecord worker;
          worker.id = rank.worker;
          core.membership_.Restore(std::move(worker));
        }
        const auto [holder, added] = holders.emplace(std::pair(rank.worker, rank.slot), job.id);
        if (!added) {
          return absl::DataLossError(absl::StrCat("stored jobs \"", holder->second, "\" and \"",
                                                  job.id, "\" both hold slot ", rank.slot,
                                                  " of worker \"", rank.worker, "\""));
        }
      }
    }
    core.last_number_ = std::max(core.last_number_, job.number);
    if (job.retire_time) {
      if (IsEnded(job.state)) {
        core.retired_.Put(std::move(job));
        continue;
      }
      return absl::DataLossError(absl::StrCat("stored job \"", job.id, "\" is retired and ",
                                              JobStateName(job.state),
                                              "; expected one that has ended"));
    }
    std::vector<int64_t> none(job.ranks.size(), 0);
    absl::Duration delay;
    // A wall clock that was set back meanwhile must not make the delay longer.
    if (job.next_attempt_time && !job.attempts.empty() && job.attempts.back().end_time) {
      const absl::Time begin = std::max(now, *job.attempts.back().end_time);
      delay = std::max(absl::ZeroDuration(), *job.next_attempt_time - begin);
    }
    core.Insert({.record = std::move(job), .acked = none, .replayed = none, .next_attempt = delay});
  }
  return core;
}

const JobRecord* Core::FindJob(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? retired_.Find(id) : &found->second.record;
}

const JobRecord* Core::FindJobByUid(const std::string& uid) const {
  const auto found = id_by_uid_.find(uid);
  return found == id_by_uid_.end() ? nullptr : FindJob(found->second);
}

std::vector<const JobRecord*> Core::Jobs() const {
  std::vector<const JobRecord*> jobs;
  for (const auto& [number, id] : id_by_number_) jobs.push_back(&Get(id));
  return jobs;
}

absl::Status Core::CheckAttempt(const std::string& uid, Epoch epoch,
                                const std::string& worker) const {
  const JobRecord* job = FindJobByUid(uid);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("no job with uid ", uid));
  if (job->epoch != epoch) {
    return absl::AbortedError(absl::StrCat("job \"", job->id, "\": epoch ", epoch.value(),
                                           " is not the current one, ", job->epoch.value()));
  }
  if (!IsActive(job->state)) {
    return absl::AbortedError(absl::StrCat("job \"", job->id, "\" is ", JobStateName(job->state),
                                           "; expected a job that holds slots"));
  }
  const bool takes_part =
      worker.empty() || std::any_of(job->ranks.begin(), job->ranks.end(),
                                    [&](const RankRecord& rank) { return rank.worker == worker; });
  if (!takes_part) {
    return absl::PermissionDeniedError(absl::StrCat(
        "job \"", job->id, "\": found worker \"", worker, "\", expected one that has ranks of it"));
  }
  return absl::OkStatus();
}

const StragglerWatch* Core::FindStragglers(const std::string& job_id) const {
  const auto found = stragglers_.find(job_id);
  return found == stragglers_.end() ? nullptr : &found->second;
}

const Worker* Core::FindWorker(const std::string& id) const { return membership_.Find(id); }

std::vector<const JobRecord*> Core::JobsBefore(
    int64_t number, int32_t count, const std::function<bool(const JobRecord&)>& wanted) const {
  std::vector<const JobRecord*> jobs;
  for (auto it = id_by_number_.lower_bound(number); it != id_by_number_.begin() && count > 0;) {
    const JobRecord& job = Get((--it)->second);
    if (wanted && !wanted(job)) continue;
    jobs.push_back(&job);
    --count;
  }
  return jobs;
}

int32_t Core::FreeSlots(const std::string& worker_id) const {
  const Worker* worker = membership_.Find(worker_id);
  if (worker == nullptr || !worker->ready() || !worker->record.cordon.empty()) return 0;
  const std::map<int32_t, int64_t>& held = index_.HeldOn(worker_id);
  int32_t free = 0;
  for (const WorkerDevice& device : worker->record.devices) {
    free += device.fault.empty() && !held.contains(device.slot);
  }
  return free;
}

std::vector<WorkerView> Core::ClusterView() const {
  std::vector<WorkerView> view;
  view.reserve(workers().size());
  for (const auto& [id, worker] : workers()) {
    const std::map<int32_t, int64_t>& held = index_.HeldOn(id);
    WorkerView& added = view.emplace_back();
    added.id = id;
    added.ready = worker.ready();
    added.cordoned = !worker.record.cordon.empty();
    for (const WorkerDevice& device : worker.record.devices) {
      added.slots.push_back({.slot = device.slot,
                             .kind = device.kind,
                             .free = device.fault.empty() && !held.contains(device.slot),
                             .healthy = device.fault.empty()});
    }
  }
  return view;
}

const Placer& Core::Slots() const {
  if (!slots_ || slots_->second != worker_changes_ || index_.HasSlotChanges())
    slots_.emplace(Placer(ClusterView()), worker_changes_);
  return slots_->first;
}

bool Core::BacksOff(const JobRecord& job) const {
  return job.next_attempt_time.has_value() && last_placing_ < jobs_.at(job.id).next_attempt;
}

QueuedJob Core::Queued(const JobRecord& job) const {
  return {.id = job.id, .gang = job.GangIn(LayoutFor(job)), .kind = job.device_kind};
}

bool Core::IsOverQuota(const JobRecord& job, int64_t claimed) const {
  const int64_t devices = DevicesOf(options_.quotas, job.project);
  if (devices == INT64_MAX) return false;
  const auto held = index_.held_by().find(job.project);
  const int64_t used = held == index_.held_by().end() ? 0 : held->second;
  return used + claimed + Queued(job).gang.ranks() > devices;
}

int64_t Core::ClaimOf(const JobRecord& job) const {
  const int64_t most = DevicesOf(options_.quotas, job.project);
  int64_t claim = job.gang.ranks() <= most ? job.gang.ranks() : 0;
  if (job.attempt == 0) return claim;
  for (const Gang& gang : job.fallbacks) {
    if (gang.ranks() <= most) claim = std::max<int64_t>(claim, gang.ranks());
  }
  return claim;
}

bool Core::ExceedsQuota(const JobRecord& job) const {
  return Queued(job).gang.ranks() > DevicesOf(options_.quotas, job.project);
}

absl::Status Core::CheckQuota(const std::string& project, int32_t ranks,
                              const std::string& spec) const {
  if (index_.waiting_in_all() >= options_.most_waiting) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "found ", index_.waiting_in_all(), " jobs of all projects that wait, expected fewer than ",
        options_.most_waiting, " (stretto-coordinator ", limits::kWaitingJobs.flag, ")"));
  }
  const auto bytes = static_cast<int64_t>(spec.size());
  if (index_.waiting_bytes() + bytes > options_.most_waiting_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("found ", index_.waiting_bytes(), " bytes of specs of jobs that wait, and ",
                     bytes, " of this one, expected at most ", options_.most_waiting_bytes,
                     " together (stretto-coordinator ", limits::kWaitingSpecBytes.flag, ")"));
  }
  const auto waiting = index_.waiting_of().find(project);
  return coordinator::CheckQuota(options_.quotas, project, ranks,
                                 waiting == index_.waiting_of().end() ? 0 : waiting->second);
}

std::vector<std::string> Core::PreemptedFor(const JobRecord& job) const {
  std::vector<std::string> ids;
  for (const QueueKey& key : index_.ActiveOf(job.device_kind)) {
    if (JobOf(key.number).preempted_by == job.id) ids.push_back(JobOf(key.number).id);
  }
  return ids;
}

Placement Core::PlaceNow(const JobRecord& job) const {
  JobRecord last = job;
  last.number = last_number_ + 1;
  Placement own;
  std::vector<RankSlot> ranks = TryPlacing(last);
  if (ranks.empty()) {
    own.unplaced.push_back(QueueView(*this).WhyWaiting(last));
  } else {
    own.placed.push_back({job.id, std::move(ranks)});
  }
  return own;
}

std::vector<std::string> Core::JobsOn(const std::string& worker_id) const {
  std::set<std::string> ids;
  for (const auto& [slot, number] : index_.HeldOn(worker_id)) {
    ids.insert(id_by_number_.at(number));
  }
  return {ids.begin(), ids.end()};
}

}  // namespace stretto::coordinator
