// SPDX-License-Identifier: Apache-2.0

// The rules of the queue, checked against the state after an event: who may start, who may be asked
// to make room, and who may not wait. Rooms are counted here from the records alone.

#include <algorithm>
#include <numeric>

#include "coordinator/placement/gang.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

int32_t SmallestBlock(const Gang& gang) {
  if (gang.split_blocks) return 1;
  int32_t smallest = INT32_MAX;
  for (const StageBlocks& stage : gang.stages) smallest = std::min(smallest, stage.size);
  return smallest;
}

// All slots of a kind on a worker, faulty ones too.
int32_t SlotsOn(const Core& core, const std::string& worker, int32_t kind) {
  const std::vector<WorkerDevice>& devices = core.FindWorker(worker)->record.devices;
  return static_cast<int32_t>(
      std::count_if(devices.begin(), devices.end(),
                    [kind](const WorkerDevice& device) { return device.kind == kind; }));
}

// Healthy slots of a kind by worker; with `free`, those that no job holds, on workers that take
// work. A job counts as holding none if `gone` says so.
template <class Gone>
std::vector<int32_t> Room(const Core& core, int32_t kind, bool free, const Gone& gone) {
  std::set<std::pair<absl::string_view, int32_t>> held;
  for (const JobRecord* job : free ? core.Jobs() : std::vector<const JobRecord*>()) {
    if (!IsActive(job->state) || gone(*job)) continue;
    for (const RankRecord& rank : job->ranks) held.emplace(rank.worker, rank.slot);
  }
  std::vector<int32_t> room;
  for (const auto& [id, worker] : core.workers()) {
    const bool open = worker.ready() && worker.record.cordon.empty();
    int32_t& here = room.emplace_back(0);
    for (const WorkerDevice& device : worker.record.devices) {
      if (device.kind != kind || !device.fault.empty()) continue;
      here += !free || (open && !held.contains({id, device.slot}));
    }
  }
  return room;
}

// The ranks of the largest layout that a job which waits may start in.
int64_t LargestLayout(const JobRecord& job, const Quotas& quotas) {
  const auto quota = quotas.find(job.project);
  const int64_t most = quota == quotas.end() ? INT64_MAX : quota->second.devices;
  int64_t largest = 0;
  for (int32_t layout = 0; layout <= (job.attempt > 0 ? std::ssize(job.fallbacks) : 0); ++layout) {
    const int64_t ranks = job.GangIn(layout).ranks();
    if (ranks <= most) largest = std::max(largest, ranks);
  }
  return largest;
}

bool Nobody(const JobRecord&) { return false; }

// Healthy slots of a kind on workers that take work, held or not.
std::vector<int32_t> Open(const Core& core, int32_t kind) {
  return Room(core, kind, /*free=*/true, [](const JobRecord&) { return true; });
}

std::vector<const JobRecord*> InOrder(const Core& core) {
  std::vector<const JobRecord*> jobs = core.Jobs();
  std::sort(jobs.begin(), jobs.end(), [](const JobRecord* a, const JobRecord* b) {
    return std::pair(-a->priority, a->number) < std::pair(-b->priority, b->number);
  });
  return jobs;
}

}  // namespace

bool ClusterSim::HasDevices(const Core& core, const JobRecord& of, int64_t dealt,
                            const std::set<std::string>& started) const {
  const auto quota = quotas_.find(of.project);
  if (quota == quotas_.end()) return true;
  int64_t used = dealt + core.Queued(of).gang.ranks();
  for (const JobRecord* job : core.Jobs()) {
    if (job->project == of.project && IsActive(job->state) && !started.contains(job->id))
      used += job->world_size();
  }
  return used <= quota->second.devices;
}

void ClusterSim::CheckQueues(const Core& core) {
  std::map<int32_t, std::vector<const JobRecord*>> ahead;  // by kind: possible jobs that wait
  std::set<std::string> held_up;                           // projects over their quota
  // By project, to jobs of all kinds so far: held by those that start, claimed by those that wait.
  std::map<std::string, int64_t> dealt;
  std::set<int32_t> has_head;
  std::set<std::string> started;                  // in this event
  std::map<int32_t, std::vector<int32_t>> known;  // by kind: healthy slots of each worker
  for (int32_t kind : {1, kGpuKind}) known[kind] = Room(core, kind, /*free=*/false, Nobody);
  for (const JobRecord* job : core.Jobs()) {
    if (IsActive(job->state) && placed_[job->id] != job->epoch) started.insert(job->id);
    if (IsActive(job->state)) placed_[job->id] = job->epoch;
  }
  for (const JobRecord* job : InOrder(core)) {
    const int32_t kind = job->device_kind;
    if (started.contains(job->id)) {
      CheckStart(core, *job, ahead[kind]);
      Check(!held_up.contains(job->project),
            "nobody overtakes a job that its project's quota holds up");
      dealt[job->project] += job->world_size();
      for (const auto& [other, waiting] : ahead) {
        if (other != kind && !waiting.empty()) ++probes_["started past another kind's queue"];
      }
    }
    if (job->state != JobState::kPending || core.BacksOff(*job)) continue;
    const Gang gang = core.Queued(*job).gang;
    const std::vector<int32_t>& slots = known.at(kind);
    if (DealGang(slots, gang).empty()) {
      if (std::accumulate(slots.begin(), slots.end(), 0) >= gang.ranks())
        ++probes_["block that no worker could hold"];
      continue;
    }
    if (held_up.contains(job->project) || !HasDevices(core, *job, dealt[job->project], started)) {
      held_up.insert(job->project);
      ++probes_["over quota"];
      continue;
    }
    dealt[job->project] += LargestLayout(*job, quotas_);
    ahead[kind].push_back(job);
    if (!has_head.insert(kind).second) continue;
    Check(DealGang(Room(core, kind, /*free=*/true, Nobody), gang).empty(),
          "the first job of a kind starts when it can");
  }
  CheckVictims(core);
}

void ClusterSim::CheckStart(const Core& core, const JobRecord& job,
                            const std::vector<const JobRecord*>& ahead) {
  std::vector<RankSlot> slots;
  for (const RankRecord& rank : job.ranks) slots.push_back({rank.worker, rank.slot});
  for (int32_t larger = 0; larger < job.layout; ++larger) {
    Check(DealGang(Open(core, job.device_kind), job.GangIn(larger)).empty(),
          "a later layout is used only if no earlier one fits on the workers that remain");
  }
  probes_["restarted in another layout"] += job.layout > 0;
  const bool cut = CutsBlock(slots, job.GangIn(job.layout));
  Check(!cut || job.gang.split_blocks, "no block is cut that must not be");
  probes_["block on several workers"] += cut;
  for (const RankRecord& rank : job.ranks) {
    Check(core.FindWorker(rank.worker)->record.cordon.empty(),
          "no job starts on a cordoned worker");
    for (const WorkerDevice& device : core.FindWorker(rank.worker)->record.devices) {
      Check(device.slot != rank.slot || device.fault.empty(), "no job starts on a faulty slot");
    }
  }
  const auto quota = quotas_.find(job.project);
  if (quota != quotas_.end()) {
    int64_t used = 0;
    for (const JobRecord* other : core.Jobs()) {
      if (other->project == job.project && IsActive(other->state)) used += other->world_size();
    }
    Check(used <= quota->second.devices, "no project has more devices than its quota");
  }
  for (const JobRecord* waits : ahead) {
    ++probes_["backfilled"];
    for (const RankRecord& rank : job.ranks) {
      Check(SlotsOn(core, rank.worker, job.device_kind) < SmallestBlock(core.Queued(*waits).gang),
            "who overtakes a job takes no slot that it could use");
    }
  }
}

void ClusterSim::CheckVictims(const Core& core) {
  std::map<std::string, std::vector<const JobRecord*>> victims;  // of this event, by preemptor
  for (const JobRecord* job : core.Jobs()) {
    if (job->preempted_by.empty() || !IsActive(job->state)) continue;
    Check(job->stop_with_checkpoint, "a victim is asked for a checkpoint");
    if (!victims_.emplace(job->uid, job->epoch.value()).second) continue;
    victims[job->preempted_by].push_back(job);
    ++probes_["preempted for another job"];
    Check(job->saves, "no victim whose steps would be lost");
  }
  for (const auto& [id, of] : victims) {
    const JobRecord* by = core.FindJob(id);
    Check(by != nullptr && by->state == JobState::kPending, "who preempts waits");
    const auto ends = [](const JobRecord& job) { return !job.stop_reason.empty(); };
    const int32_t kind = by->device_kind;
    const Gang gang = core.Queued(*by).gang;
    Check(!DealGang(Room(core, kind, true, ends), gang).empty(),
          "who preempts fits when the victims are gone");
    for (const JobRecord* victim : of) {
      Check(victim->priority < by->priority, "only jobs of lower priority are preempted");
      const auto others = [&](const JobRecord& job) { return ends(job) && job.id != victim->id; };
      Check(DealGang(Room(core, kind, true, others), gang).empty(), "no more victims than needed");
    }
  }
}

}  // namespace stretto::coordinator::testing
