// SPDX-License-Identifier: Apache-2.0

// The store and its faults. The simulation keeps its own account of what was acknowledged, and of
// what a failed commit may have left behind, and compares every restart with it.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/queue_view.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

// Step numbers of running jobs are not stored.
JobRecord WithoutSteps(JobRecord job) {
  for (RankRecord& rank : job.ranks) rank.last_step = 0;
  return job;
}

}  // namespace

void ClusterSim::OpenStore() {
  store_.reset();
  if (options_.folder.empty()) {
    if (kept_ == nullptr) kept_ = NewMemoryStore();
  } else {
    if (disk_ == nullptr) disk_ = std::make_unique<TornDisk>();
    disk_->Die();  // closing the database changes nothing any more
    kept_.reset();
    disk_->Crash([this](uint64_t n) { return Pick(n); });
    auto opened = OpenSqliteStore(options_.folder + "/jobs.db");
    Check(opened.ok(), absl::StrCat("the store opens after a crash: ", opened.status().ToString()));
    kept_ = *std::move(opened);
  }
  store_ = std::make_unique<FaultyStore>(*kept_);
}

void ClusterSim::FailStore() {
  if (disk_ != nullptr && Pick(2) == 0) {
    ++probes_["died within a write"];
    return disk_->DieAfter(static_cast<int64_t>(Pick(12)));
  }
  const bool refused = Pick(2) == 0;
  store_->FailCommit(static_cast<int64_t>(1 + Pick(3)),
                     refused ? FaultyStore::Fault::kRefused : FaultyStore::Fault::kResponseLost);
}

void ClusterSim::NoteCommit(const std::vector<Record>& records, bool stored) {
  if (stored) unsure_.clear();  // a commit repairs what the one before it may have left behind
  for (const Record& record : records) {
    const auto* job = std::get_if<JobRecord>(&record);
    const auto* erased = std::get_if<JobErased>(&record);
    const auto* epoch = std::get_if<EpochRecord>(&record);
    if (epoch != nullptr && stored) {
      Check(epoch->last >= stored_epoch_, "the stored epoch never goes back");
      stored_epoch_ = epoch->last;
    }
    if (job != nullptr && stored) stored_.insert_or_assign(job->id, *job);
    if (erased != nullptr && stored) stored_.erase(erased->id);
    if (job != nullptr && !stored) unsure_[job->id].emplace_back(*job);
    if (erased != nullptr && !stored) unsure_[erased->id].emplace_back(std::nullopt);
  }
}

void ClusterSim::RestartCoordinator() {
  for (Node& node : nodes_) Break(node, /*seen_by_coordinator=*/false);
  driver_.reset();
  OpenStore();
  const auto loaded = store_->Load();
  Check(loaded.ok(), absl::StrCat("the store can be read: ", loaded.status().ToString()));
  CheckLoaded(*loaded);
  auto core = Core::Restore(*loaded, Options(), wall_);
  Check(core.ok(), absl::StrCat("the stored state can be restored: ", core.status().ToString()));
  driver_ = std::make_unique<Driver>(*std::move(core), *this, *this);
  // Its clock begins with the next event, and so does a lease of every node.
  last_tick_ = heard_until_ = monotonic_;
  storing_ = true;
  for (Node& node : nodes_) node.silent = absl::ZeroDuration();
  since_step_.clear();
  // What the store kept of a commit whose response was lost is the truth from now on.
  counted_.clear();
  ended_.clear();
  placed_.clear();
  stored_.clear();
  unsure_.clear();
  std::erase_if(accepted_, [&loaded](const std::string& id) {
    return std::none_of(loaded->jobs.begin(), loaded->jobs.end(),
                        [&id](const JobRecord& job) { return job.id == id; });
  });
  for (const JobRecord& job : loaded->jobs) {
    stored_.emplace(job.id, job);
    if (job.attempt > 0) placed_[job.id] = job.epoch;
    if (!job.preempted_by.empty()) victims_.emplace(job.uid, job.epoch.value());
    if (IsEnded(job.state)) ended_.emplace(job.id, job);
    for (size_t i = 0; i < job.ranks.size(); ++i) {
      if (job.ranks[i].state == RankState::kLost)
        lost_.insert({job.uid, job.epoch.value(), static_cast<int32_t>(i)});
    }
  }
  stored_epoch_ = loaded->epoch.last;
  ++probes_["coordinator restarted"];
}

void ClusterSim::CheckLoaded(const Snapshot& loaded) const {
  Check(loaded.epoch.last >= stored_epoch_, "the stored epoch never goes back");
  std::map<std::string, const JobRecord*> found;
  for (const JobRecord& job : loaded.jobs) found[job.id] = &job;
  for (const auto& [id, job] : stored_) {
    Check(found.contains(id) || unsure_.contains(id), "no acknowledged job is lost");
  }
  for (const auto& [id, job] : found) {
    const JobRecord loaded_job = WithoutSteps(*job);
    const auto stored = stored_.find(id);
    bool known = stored != stored_.end() && WithoutSteps(stored->second) == loaded_job;
    const auto unsure = unsure_.find(id);
    if (!known && unsure != unsure_.end()) {
      for (const std::optional<JobRecord>& written : unsure->second) {
        known |= written.has_value() && WithoutSteps(*written) == loaded_job;
      }
    }
    Check(known, "no acknowledged write is lost, and none appears that was not made");
  }
}

void ClusterSim::CheckStore(const Core& core) {
  std::vector<const JobRecord*> jobs = core.Jobs();
  for (const auto& [number, job] : core.retired().by_number()) jobs.push_back(&job);
  Check(jobs.size() == stored_.size(), "the store has the core's jobs");
  for (const JobRecord* job : jobs) {
    const auto found = stored_.find(job->id);
    Check(found != stored_.end() && found->second.ranks.size() == job->ranks.size(),
          "the store has the core's jobs");
    if (IsEnded(job->state) && !look_at_ended_) continue;
    for (size_t i = 0; i < job->ranks.size(); ++i) {
      found->second.ranks[i].last_step = job->ranks[i].last_step;
    }
    Check(found->second == *job, "the store equals the core");
  }
}

void ClusterSim::CheckEnd() const {
  driver_->Read([this](const Core& core) {
    QueueView view(core);
    for (const std::string& id : accepted_) {
      const JobRecord* job = core.FindJob(id);
      Check(job != nullptr, "an accepted job is there until it is deleted");
      if (options_.healthy_nodes && job->attempt > 0) {
        Check(job->state == JobState::kSucceeded, "a job on healthy nodes succeeds");
      }
      if (IsEnded(job->state)) continue;
      const JobRecord shown = view.Shown(*job);
      const Condition* why = shown.FindCondition("Scheduled");
      Check(why != nullptr && !why->reason.empty() && !why->message.empty(),
            "every accepted job ends or says why it waits");
    }
    return 0;
  });
}

}  // namespace stretto::coordinator::testing
