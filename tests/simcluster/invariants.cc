// SPDX-License-Identifier: Apache-2.0

// What must hold after every event (coordinator_sim.h lists it): the core's state is compared with
// what the simulation itself knows, and with what has been stored.

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
void ClusterSim::Check(bool condition, absl::string_view what) const {
  if (!condition) throw std::logic_error(absl::StrCat("broken: ", what));
}

void ClusterSim::CheckCore(bool all) {
  // What has ended is most of a long simulation, and a wrong value of it stays.
  look_at_ended_ = all || ++checks_ % 8 == 0;
  driver_->Read([this](const Core& core) {
    std::set<std::pair<absl::string_view, int32_t>> held;
    for (const JobRecord* job : core.Jobs()) {
      CheckJob(*job);
      Check(job->epoch <= core.last_epoch(), "an epoch has been given out before it is used");
      if (!IsActive(job->state)) continue;
      for (const RankRecord& rank : job->ranks) {
        Check(held.emplace(rank.worker, rank.slot).second, "no slot is held by two jobs");
      }
    }
    CheckStore(core);
    CheckContact(core);
    return 0;
  });
}

void ClusterSim::CheckJob(const JobRecord& job) {
  const bool whole = job.ranks.size() == static_cast<size_t>(job.world_size());
  Check(whole || (job.ranks.empty() && !IsActive(job.state)), "a gang is whole or absent");
  Check((job.attempt > 0) == (job.epoch.value() > 0), "a placed job has an epoch");
  const bool waits = job.state == JobState::kPending || job.state == JobState::kSuspended;
  Check(!waits || job.ranks.empty(), "a job that waits holds nothing");
  Check(job.state != JobState::kRunning || job.start_time.has_value(), "a running job has started");
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    CheckHeard(job.ranks[i], {job.uid, job.epoch.value(), static_cast<int32_t>(i)});
  }
  const Condition* healthy = job.FindCondition("DevicesHealthy");
  if (healthy != nullptr && healthy->status == ConditionStatus::kFalse) {
    ++probes_["job on a faulty GPU"];
  }
  const Condition* requested = job.FindCondition("CheckpointRequested");
  if (requested != nullptr) {
    const bool open = requested->status == ConditionStatus::kTrue;
    Check(!open || IsActive(job.state),
          "a request for a checkpoint has an answer when the job stops");
    const bool fresh =
        requested->reason == "Saved" && answered_.emplace(job.uid, job.checkpoint_request).second;
    probes_["checkpoint on request"] += fresh;
  }
  if (!look_at_ended_) return;
  const auto ended = ended_.find(job.id);
  Check(ended == ended_.end() || ended->second == job, "an ended job never changes again");
}

void ClusterSim::CheckRetired(const JobRecord& job) {
  const auto ended = ended_.find(job.id);
  Check(ended != ended_.end() && !ended->second.retire_time,
        "only a job that has ended is retired, and once");
  JobRecord expected = RetiredRecord(ended->second, *job.retire_time);
  expected.summary = job.summary;
  Check(expected == job, "a retired job ended as it did");
  ended->second = job;
  ++probes_["job retired"];
}

// A job may make room for others.
void ClusterSim::CheckHarmed(const JobRecord& job) const {
  if (!options_.healthy_nodes) return;
  bool harmed = job.first_failure.has_value();
  for (const AttemptRecord& attempt : job.attempts) {
    harmed |= attempt.cause != RestartCause::kNone && attempt.cause != RestartCause::kPreemption;
  }
  Check(!harmed, "no job is harmed by a fault of the control plane alone");
}

void ClusterSim::CheckHeard(const RankRecord& rank, const RankKey& key) {
  const Heard& heard = heard_[key];
  Check(rank.state != RankState::kPrepared || heard.prepared,
        "a rank has prepared when it said so in its epoch");
  Check(rank.state != RankState::kExited || heard.exited,
        "a rank has exited when it said so in its epoch");
  Check(rank.last_step <= heard.last_step, "a rank has done the steps that it said in its epoch");
}

void ClusterSim::NoteHeld(const WorkerRegistered& event) {
  std::set<RankKey> held;
  for (const HeldRank& rank : event.held) {
    if (rank.alive) held.insert({rank.job_uid, rank.epoch.value(), rank.rank.value()});
  }
  for (const auto& [uid, seen] : seen_) {
    for (size_t rank = 0; rank < seen.workers.size(); ++rank) {
      const RankKey key = {uid, seen.epoch.value(), static_cast<int32_t>(rank)};
      if (seen.workers[rank] == event.id && !held.contains(key)) gone_.insert(key);
    }
  }
}

// A rank that was gone once stays so, although its worker may come back.
bool ClusterSim::IsGone(const RankKey& rank, const std::string& worker) {
  if (heard_[rank].exited || MayBeGivenUp(worker)) gone_.insert(rank);
  return gone_.contains(rank);
}

void ClusterSim::CheckAttempts(const Core& core) {
  for (const JobRecord* job : core.Jobs()) {
    Seen& seen = seen_[job->uid];
    if (std::exchange(seen.ended, IsEnded(job->state)) && seen.ended) continue;
    const int64_t runs = 1 + resumed_[job->uid];
    const int64_t most = job->restart.has_value() ? job->restart->max : 0;
    const auto preempted = std::count_if(
        job->attempts.begin(), job->attempts.end(),
        [](const AttemptRecord& attempt) { return attempt.cause == RestartCause::kPreemption; });
    Check(job->attempt <= runs * (1 + most) + preempted ||
              job->attempts.size() == JobRecord::kKeptAttempts,
          "a job has no more attempts than its policy allows");
    const bool lost = std::any_of(job->ranks.begin(), job->ranks.end(),
                                  [](const auto& rank) { return rank.state == RankState::kLost; });
    // Who comes back before he is given up has not been silent for good.
    if (IsActive(job->state) && job->epoch == seen.epoch && !lost) seen.for_good = false;
    bool gone = true;
    for (size_t rank = 0; rank < seen.workers.size(); ++rank) {
      const RankKey key = {job->uid, seen.epoch.value(), static_cast<int32_t>(rank)};
      gone &= IsGone(key, seen.workers[rank]);
      seen.for_good |= MayBeGivenUpForGood(seen.workers[rank]);
    }
    if (!IsActive(job->state) || job->epoch == seen.epoch) continue;
    Check(gone, "an attempt starts when every rank of the one before is gone");
    CheckUnfenced(*job, seen);
    seen.epoch = job->epoch;
    seen.for_good = false;
    seen.workers.clear();
    for (const RankRecord& rank : job->ranks) seen.workers.push_back(rank.worker);
  }
}

}  // namespace stretto::coordinator::testing
