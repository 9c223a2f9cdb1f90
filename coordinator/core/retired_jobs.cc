// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/retired_jobs.h"

#include <utility>

#include "coordinator/core/core.h"
#include "proto/base/printable.h"

namespace stretto::coordinator {

JobRecord RetiredRecord(const JobRecord& job, absl::Time now) {
  JobRecord kept;
  kept.id = job.id;
  kept.uid = job.uid;
  kept.number = job.number;
  kept.project = job.project;
  kept.owner = job.owner;
  kept.priority = job.priority;
  kept.device_kind = job.device_kind;
  kept.total_steps = job.total_steps;
  kept.state = job.state;
  kept.create_time = job.create_time;
  kept.start_time = job.start_time;
  kept.end_time = job.end_time;
  kept.retire_time = now;
  kept.attempt = job.attempt;
  kept.epoch = job.epoch;
  kept.restarts = job.restarts;
  if (const Condition* end = job.FindCondition("Succeeded")) {
    Condition& why = kept.conditions.emplace_back(*end);
    why.message.resize(Prefix(why.message, kRetiredMessageBytes).size());
  }
  kept.summary = job.summary;
  return kept;
}

const JobRecord* RetiredJobs::Find(const std::string& id) const {
  const auto found = number_of_.find(id);
  return found == number_of_.end() ? nullptr : &by_number_.at(found->second);
}

void RetiredJobs::Put(JobRecord job) {
  number_of_[job.id] = job.number;
  by_number_.insert_or_assign(job.number, std::move(job));
}

void RetiredJobs::Erase(const std::string& id) {
  const auto found = number_of_.find(id);
  if (found == number_of_.end()) return;
  by_number_.erase(found->second);
  number_of_.erase(found);
}

// ---- of the core

void Core::RetireOldJobs() {
  constexpr int kAtOnce = 100;  // bounds the work of an event; the next tick continues
  // Those that this event retires are not erased by it: an object has one record in a batch.
  const auto most = static_cast<size_t>(options_.keep_retired);
  for (int i = 0; i < kAtOnce && retired_.by_number().size() > most; ++i) {
    Erase(std::string(retired_.by_number().begin()->second.id));
  }
  for (int i = 0; i < kAtOnce && !index_.ended().empty(); ++i) {
    const auto [end, number] = *index_.ended().begin();
    const auto count = static_cast<int64_t>(index_.ended().size());
    if (count <= options_.keep_jobs && now_ - end <= options_.keep_jobs_for) return;
    const std::string id = id_by_number_.at(number);
    if (most == 0) {
      Erase(id);
    } else {
      Retire(id);
    }
  }
}

void Core::Retire(const std::string& id) {
  JobRecord kept = RetiredRecord(Get(id), now_);
  Remove(id);
  undo_.retired.emplace(id, std::nullopt);
  retired_.Put(std::move(kept));
  effects_.summaries.insert(id);
}

void Core::Erase(const std::string& id) {
  if (const JobRecord* retired = retired_.Find(id)) {
    effects_.erased_jobs.push_back({id, retired->uid});
    undo_.retired.emplace(id, *retired);
    retired_.Erase(id);
    return;
  }
  effects_.erased_jobs.push_back({id, Get(id).uid});
  Remove(id);
}

void Core::Remove(const std::string& id) {
  const JobRecord& job = Touch(id).record;
  changed_jobs_.erase(id);
  index_.Remove(job.number);
  id_by_uid_.erase(job.uid);
  id_by_number_.erase(job.number);
  if (!job.request_id.empty()) id_by_request_.erase(job.request_id);
  jobs_.erase(id);
}

std::vector<const JobRecord*> Core::RetiredBefore(
    int64_t number, int32_t count, const std::function<bool(const JobRecord&)>& wanted) const {
  std::vector<const JobRecord*> jobs;
  const std::map<int64_t, JobRecord>& all = retired_.by_number();
  for (auto it = all.lower_bound(number); it != all.begin() && count > 0;) {
    const JobRecord& job = (--it)->second;
    if (wanted && !wanted(job)) continue;
    jobs.push_back(&job);
    --count;
  }
  return jobs;
}

}  // namespace stretto::coordinator
