// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/cluster_state.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "coordinator/placement/placement.h"

namespace stretto::service {
namespace {

using coordinator::Condition;
using coordinator::ConditionStatus;
using coordinator::JobRecord;
using coordinator::JobState;

constexpr absl::Duration kEndedJobs = absl::Minutes(5);
constexpr absl::Duration kLostWorkers = absl::Hours(1);

const char* DeviceName(int32_t kind) { return kind == coordinator::kGpuKind ? "cuda" : "cpu"; }

telemetry::ClusterState NothingYet() {
  telemetry::ClusterState state;
  for (int i = 1; i <= static_cast<int>(JobState::kCancelled); ++i) {
    state.jobs[coordinator::JobStateName(static_cast<JobState>(i))] = 0;
  }
  state.workers = {{"READY", 0}, {"LOST", 0}};
  for (const char* device : {"cpu", "cuda"}) {
    for (const char* slots : {"FREE", "USED", "FAULTY"}) state.slots[{device, slots}] = 0;
  }
  return state;
}

// Returns since when the condition has been TRUE, or `never` if it is not.
absl::Time TrueSince(const JobRecord& job, const char* type, absl::Time never) {
  const Condition* condition = job.FindCondition(type);
  const bool holds = condition != nullptr && condition->status == ConditionStatus::kTrue;
  return holds ? condition->last_transition_time : never;
}

void AddTimes(const JobRecord& job, absl::Time now, telemetry::ClusterState* state) {
  const absl::Time end = job.end_time.value_or(now);
  const absl::Time placed = TrueSince(job, "Scheduled", end);
  const absl::Time prepared = TrueSince(job, "Prepared", end);
  const auto add = [&](const char* name, absl::Time from, absl::Time to) {
    state->job_times[{job.id, name}] = std::max(to - from, absl::ZeroDuration());
  };
  add("PENDING", job.create_time, placed);
  add("PREPARING", placed, prepared);
  add("RUNNING", prepared, end);
}

void AddJobs(const coordinator::Core& core, absl::Time now, telemetry::ClusterState* state) {
  for (const JobRecord* job : core.Jobs()) {
    ++state->jobs[coordinator::JobStateName(job->state)];
    if (!job->end_time.has_value() || now - *job->end_time < kEndedJobs) AddTimes(*job, now, state);
    // Jobs come oldest first, so the first of a kind is the oldest.
    if (job->state == JobState::kPending) {
      state->oldest_pending.try_emplace(DeviceName(job->device_kind), job->create_time);
    }
  }
}

std::set<std::pair<std::string, int32_t>> UsedSlots(const coordinator::Core& core) {
  std::set<std::pair<std::string, int32_t>> used;
  for (const JobRecord* job : core.Jobs()) {
    if (!coordinator::IsActive(job->state)) continue;
    for (const coordinator::RankRecord& rank : job->ranks) {
      if (!rank.gone()) used.emplace(rank.worker, rank.slot);
    }
  }
  return used;
}

void AddWorkers(const coordinator::Core& core, absl::Time now, telemetry::ClusterState* state) {
  const auto used = UsedSlots(core);
  for (const auto& [id, worker] : core.workers()) {
    ++state->workers[worker.ready() ? "READY" : "LOST"];
    // A worker that has not registered since a restart of the coordinator sent its last heartbeat
    // before that.
    const bool seen = worker.session != 0;
    if (seen && (worker.ready() || now - worker.last_heartbeat_time < kLostWorkers)) {
      state->heartbeats[id] = worker.last_heartbeat_time;
    }
    if (!worker.ready()) continue;
    for (const coordinator::WorkerDevice& device : worker.record.devices) {
      const char* slot = !device.fault.empty()              ? "FAULTY"
                         : used.contains({id, device.slot}) ? "USED"
                                                            : "FREE";
      ++state->slots[{DeviceName(device.kind), slot}];
    }
  }
}

}  // namespace

telemetry::ClusterState ReadClusterState(const coordinator::Driver& driver, absl::Time now) {
  return driver.Read([now](const coordinator::Core& core) {
    telemetry::ClusterState state = NothingYet();
    AddJobs(core, now, &state);
    AddWorkers(core, now, &state);
    return state;
  });
}

}  // namespace stretto::service
