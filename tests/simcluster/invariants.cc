// SPDX-License-Identifier: Apache-2.0

// What must hold after every event (coordinator_sim.h lists it): the core's state is compared with
// what the simulation itself knows, and with what has been stored.

#include <numeric>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/gang.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

// Step numbers of running jobs are not stored.
JobRecord WithoutSteps(JobRecord job) {
  for (RankRecord& rank : job.ranks) rank.last_step = 0;
  return job;
}

}  // namespace

void ClusterSim::Check(bool condition, const std::string& what) const {
  if (!condition) throw std::logic_error(absl::StrCat("broken: ", what));
}

void ClusterSim::CheckCore() {
  const Core core = driver_->Read([](const Core& c) { return c; });
  std::set<std::pair<std::string, int32_t>> held;
  for (const JobRecord* job : core.Jobs()) {
    const bool placed = job->attempt > 0;
    Check(job->ranks.size() == (placed ? static_cast<size_t>(job->world_size()) : 0),
          "a gang is whole or absent");
    Check(placed == (job->epoch.value() > 0) && job->epoch <= core.last_epoch(),
          "a placed job has an epoch that has been given out");
    Check(job->state != JobState::kPending || !placed, "a pending job holds nothing");
    Check(job->state != JobState::kRunning || job->start_time.has_value(),
          "a running job has started");
    if (IsActive(job->state)) {
      for (const RankRecord& rank : job->ranks) {
        Check(held.emplace(rank.worker, rank.slot).second, "no slot is held by two jobs");
      }
    }
    for (size_t i = 0; i < job->ranks.size(); ++i) {
      CheckHeard(job->ranks[i], {job->uid, job->epoch.value(), static_cast<int32_t>(i)});
    }
    const Condition* healthy = job->FindCondition("DevicesHealthy");
    if (healthy != nullptr && healthy->status == ConditionStatus::kFalse) {
      ++probes_["job on a faulty GPU"];
    }
    const auto ended = ended_.find(job->id);
    Check(ended == ended_.end() || ended->second == *job, "an ended job never changes again");
    if (IsEnded(job->state)) ended_.emplace(job->id, *job);
  }
  CheckStore();
}

void ClusterSim::CheckHeard(const RankRecord& rank, const RankKey& key) {
  const Heard& heard = heard_[key];
  Check(rank.state != RankState::kPrepared || heard.prepared,
        "a rank has prepared when it said so in its epoch");
  Check(rank.state != RankState::kExited || heard.exited,
        "a rank has exited when it said so in its epoch");
  Check(rank.last_step <= heard.last_step, "a rank has done the steps that it said in its epoch");
}

void ClusterSim::CheckQueues(const Core& core) {
  std::set<std::pair<std::string, int32_t>> held;
  for (const JobRecord* job : core.Jobs()) {
    for (const RankRecord& rank : job->ranks) {
      if (IsActive(job->state)) held.emplace(rank.worker, rank.slot);
    }
  }
  std::map<int32_t, std::vector<int32_t>> known, free;  // by kind and worker
  for (const auto& [id, worker] : core.workers()) {
    for (int32_t kind : {1, kGpuKind}) {
      int32_t& known_here = known[kind].emplace_back(0);
      int32_t& free_here = free[kind].emplace_back(0);
      for (const WorkerDevice& device : worker.record.devices) {
        if (device.kind != kind || !device.fault.empty()) continue;
        ++known_here;
        free_here += worker.ready() && !held.contains({id, device.slot});
      }
    }
  }
  std::map<int32_t, std::string> heads;  // by kind: the first job that waits and could run
  for (const JobRecord* job : core.Jobs()) {
    const int32_t kind = job->device_kind;
    if (job->attempt > 0 && placed_.insert(job->id).second) {
      Check(!heads.contains(kind), "nobody overtakes an earlier job of its kind");
      if (!heads.empty()) ++probes_["started past another kind's queue"];
      std::vector<RankSlot> slots;
      for (const RankRecord& rank : job->ranks)
        slots.push_back({.worker = rank.worker, .slot = rank.slot});
      const bool cut = CutsBlock(slots, job->gang);
      Check(!cut || job->gang.split_blocks, "no block is cut that must not be");
      probes_["block on several workers"] += cut;
      for (const RankRecord& rank : job->ranks) {
        for (const WorkerDevice& device : core.FindWorker(rank.worker)->record.devices) {
          Check(device.slot != rank.slot || device.fault.empty(), "no job starts on a faulty slot");
        }
      }
    }
    if (job->state != JobState::kPending) continue;
    const int32_t ranks = job->world_size();
    const bool possible = !DealGang(known[kind], job->gang).empty();
    if (!possible && std::accumulate(known[kind].begin(), known[kind].end(), 0) >= ranks)
      ++probes_["block that no worker could hold"];
    if (!possible || !heads.emplace(kind, job->id).second) continue;
    Check(DealGang(free[kind], job->gang).empty(), "the first job of a kind starts when it can");
  }
}

void ClusterSim::CheckStore() {
  const Snapshot stored = *store_.Load();
  Check(stored.epoch.last >= stored_epoch_, "the stored epoch never goes back");
  stored_epoch_ = stored.epoch.last;
  if (store_unsure_) return;
  const Core core = driver_->Read([](const Core& c) { return c; });
  const std::vector<const JobRecord*> jobs = core.Jobs();
  Check(stored.jobs.size() == jobs.size(), "the store has the core's jobs");
  for (size_t i = 0; i < jobs.size(); ++i) {
    Check(WithoutSteps(stored.jobs[i]) == WithoutSteps(*jobs[i]), "the store equals the core");
  }
}

}  // namespace stretto::coordinator::testing
