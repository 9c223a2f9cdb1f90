// SPDX-License-Identifier: Apache-2.0

// Counts jobs, slots and workers in one walk over each. Labels that users choose are kept to those
// that the operator has configured.

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
  for (int i = 1; i <= static_cast<int>(JobState::kSuspended); ++i) {
    state.jobs[coordinator::JobStateName(static_cast<JobState>(i))] = 0;
  }
  state.workers = {{"READY", 0}, {"LOST", 0}};
  for (const char* device : {"cpu", "cuda"}) {
    for (const char* slots : {"FREE", "USED", "FAULTY", "CORDONED"})
      state.slots[{device, slots}] = 0;
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
  // The conditions tell the times of an attempt that has ranks; of earlier ones, begin and end are
  // known.
  const bool has_ranks = !job.ranks.empty();
  const absl::Time placed = has_ranks ? TrueSince(job, "Scheduled", end) : end;
  const absl::Time prepared = has_ranks ? TrueSince(job, "Prepared", end) : end;
  absl::Duration earlier;
  for (const coordinator::AttemptRecord& attempt : job.attempts) {
    const bool over = !has_ranks || attempt.number < job.attempt;
    if (over && attempt.end_time) earlier += *attempt.end_time - attempt.start_time;
  }
  const auto add = [&](const char* name, absl::Duration time) {
    state->job_times[{job.id, name}] = std::max(time, absl::ZeroDuration());
  };
  const absl::Duration paused =
      job.paused + (job.suspend_time ? end - *job.suspend_time : absl::ZeroDuration());
  if (paused > absl::ZeroDuration()) add("SUSPENDED", paused);
  add("PENDING", placed - job.create_time - earlier - paused);
  add("PREPARING", prepared - placed);
  add("RUNNING", end - prepared + earlier);
}

// No name of a project.
constexpr char kOthers[] = "(other)";

// The label of a project, so that users cannot create values at will.
std::string ProjectLabel(const coordinator::Quotas& quotas, const std::string& project) {
  return quotas.contains(project) ? project : kOthers;
}

const char* PriorityLabel(int32_t priority) {
  return priority < 0 ? "negative" : priority == 0 ? "zero" : "positive";
}

void AddProjects(const coordinator::Core& core, telemetry::ClusterState* state) {
  const coordinator::Quotas& quotas = core.options().quotas;
  state->project_slots[kOthers] = 0;
  for (const auto& [project, quota] : quotas) {
    state->project_slots[project] = 0;
    if (quota.devices != INT64_MAX) state->project_slots_limit[project] = quota.devices;
  }
  for (const auto& [project, slots] : core.index().held_by()) {
    state->project_slots[ProjectLabel(quotas, project)] += slots;
  }
}

void AddStragglers(const coordinator::Core& core, const JobRecord& job,
                   telemetry::ClusterState* state) {
  const coordinator::StragglerWatch* watch = core.FindStragglers(job.id);
  if (watch == nullptr) return;
  for (int32_t rank = 0; rank < static_cast<int32_t>(job.ranks.size()); ++rank) {
    const double lost = watch->LostSeconds(rank);
    if (lost >= 0) state->straggler_seconds[{job.id, rank}] = lost;
  }
}

void AddJobs(const coordinator::Core& core, absl::Time now, telemetry::ClusterState* state) {
  for (const JobRecord* job : core.Jobs()) {
    ++state->jobs[coordinator::JobStateName(job->state)];
    if (!job->end_time.has_value() || now - *job->end_time < kEndedJobs) AddTimes(*job, now, state);
    AddStragglers(core, *job, state);
    if (job->state == JobState::kPending) {
      ++state->queue[{DeviceName(job->device_kind), PriorityLabel(job->priority),
                      ProjectLabel(core.options().quotas, job->project)}];
    }
    const Condition* scheduled = job->FindCondition("Scheduled");
    if (job->state != JobState::kPending || scheduled == nullptr) continue;
    const absl::Time since = scheduled->last_transition_time;
    const auto [oldest, added] =
        state->oldest_pending.try_emplace(DeviceName(job->device_kind), since);
    oldest->second = std::min(oldest->second, since);
  }
}

void AddWorkers(const coordinator::Core& core, absl::Time now, telemetry::ClusterState* state) {
  for (const auto& [id, worker] : core.workers()) {
    ++state->workers[worker.ready() ? "READY" : "LOST"];
    // A worker that has not registered since a restart of the coordinator sent its last heartbeat
    // before that.
    const bool seen = worker.session != 0;
    if (seen && (worker.ready() || now - worker.last_heartbeat_time < kLostWorkers)) {
      state->heartbeats[id] = worker.last_heartbeat_time;
    }
    if (!worker.ready()) continue;
    const auto& used = core.index().HeldOn(id);
    for (const coordinator::WorkerDevice& device : worker.record.devices) {
      const char* slot = !device.fault.empty()           ? "FAULTY"
                         : used.contains(device.slot)    ? "USED"
                         : !worker.record.cordon.empty() ? "CORDONED"
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
    AddProjects(core, &state);
    AddWorkers(core, now, &state);
    return state;
  });
}

}  // namespace stretto::service
