// SPDX-License-Identifier: Apache-2.0

// Read access to the core, and its restoration from stored records.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace stretto::coordinator {

absl::StatusOr<Core> Core::Restore(Snapshot snapshot, CoreOptions options, absl::Time now) {
  Core core(options);
  core.now_ = now;
  core.epoch_ = snapshot.epoch;
  for (WorkerRecord& worker : snapshot.workers) core.membership_.Restore(std::move(worker), now);
  std::map<std::pair<std::string, int32_t>, std::string> holders;
  for (JobRecord& job : snapshot.jobs) {
    if (core.jobs_.contains(job.id) || core.id_by_uid_.contains(job.uid) ||
        core.id_by_number_.contains(job.number)) {
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
        const auto [holder, added] = holders.emplace(std::pair(rank.worker, rank.slot), job.id);
        if (!added) {
          return absl::DataLossError(absl::StrCat("stored jobs \"", holder->second, "\" and \"",
                                                  job.id, "\" both hold slot ", rank.slot,
                                                  " of worker \"", rank.worker, "\""));
        }
      }
    }
    core.last_number_ = std::max(core.last_number_, job.number);
    std::vector<int64_t> acked(job.ranks.size(), 0);
    core.Insert({.record = std::move(job), .acked = std::move(acked)});
  }
  return core;
}

const JobRecord* Core::FindJob(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second.record;
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

absl::Status Core::CheckAttempt(const std::string& uid, Epoch epoch) const {
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
  return absl::OkStatus();
}

const Worker* Core::FindWorker(const std::string& id) const { return membership_.Find(id); }

int32_t Core::FreeSlots(const std::string& worker_id) const {
  int32_t free = 0;
  for (const WorkerView& worker : ClusterView()) {
    if (worker.id != worker_id || !worker.ready) continue;
    for (const SlotView& slot : worker.slots) free += slot.free;
  }
  return free;
}

Placement Core::PlaceNow(const QueuedJob& job) const {
  std::vector<QueuedJob> queue = Queue();
  queue.push_back(job);
  Placement all = Place(queue, ClusterView()), own;
  if (!all.placed.empty() && all.placed.back().job_id == job.id) {
    own.placed.push_back(std::move(all.placed.back()));
  } else {
    own.unplaced.push_back(std::move(all.unplaced.back()));
  }
  return own;
}

std::vector<std::string> Core::JobsOn(const std::string& worker_id) const {
  std::set<std::string> ids;
  for (const auto& [number, id] : live_) {
    for (const RankRecord& rank : Get(id).ranks) {
      if (rank.worker == worker_id) ids.insert(id);
    }
  }
  return {ids.begin(), ids.end()};
}

}  // namespace stretto::coordinator
