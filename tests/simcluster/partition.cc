// SPDX-License-Identifier: Apache-2.0

// A node and the coordinator apart. The node's trainers train on, and what they report waits there.
// Either the run continues when contact returns, or the coordinator gives it up; then no trainer of
// it is left once the node has registered again.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/restart.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {

void ClusterSim::CutOff(Node& node) {
  ++probes_["node cut off"];
  const bool trains = !node.trainers.empty() && node.trainers.begin()->second.alive;
  const RankKey first = trains ? node.trainers.begin()->first : RankKey();
  Break(node, /*seen_by_coordinator=*/false);
  node.cut = true;
  const auto rounds = static_cast<int>(5 + Pick(90));
  for (int i = 0; i < rounds; ++i) {
    for (Node& other : nodes_) {
      if (Pick(4) == 0) Train(other, /*may_fail=*/false);
      Connect(other);
      if (&other == &node) continue;
      Look(other);
      Write(other);
      DeliverUp(other);
      DeliverDown(other);
    }
    PassRound(absl::Seconds(1), /*silent=*/{});
    CheckCore();
  }
  node.cut = false;
  while (monotonic_ < node.retry_at) PassRound(absl::Seconds(1), /*silent=*/{});
  Connect(node);
  while (node.session != 0 && !node.up.empty()) DeliverUp(node);
  while (node.session != 0 && !node.down.empty()) DeliverDown(node);
  if (!trains) return;
  const auto found = node.trainers.find(first);
  const bool kept = found != node.trainers.end() && !found->second.stopping;
  if (kept && rounds > 15) ++probes_["run continued after a cut"];
  if (!kept && last_epoch_of_[first.job_uid] > Epoch(first.epoch))
    ++probes_["run moved during a cut"];
}

// A worker is in contact if the coordinator holds it READY and it has the answer to its
// registration.
void ClusterSim::CheckContact(const Core& core) {
  for (const Node& node : nodes_) {
    const Worker* worker = core.FindWorker(node.id);
    if (worker == nullptr || !worker->ready() || !node.registered ||
        worker->session != node.session) {
      continue;
    }
    for (const auto& [key, trainer] : node.trainers) {
      const auto& [uid, epoch, rank] = key;
      if (!trainer.alive || trainer.stopping) continue;
      const JobRecord* job = core.FindJobByUid(uid);
      Check(job != nullptr && job->epoch == Epoch(epoch) && IsActive(job->state) &&
                job->ranks[static_cast<size_t>(rank)].state != RankState::kLost,
            absl::StrCat("a worker in contact runs ranks of the newest attempts alone: ", uid,
                         " epoch ", epoch, " rank ", rank, " on ", node.id));
    }
  }
}

// The job has just lost its first rank. Patience ends with the worker that has been away longest.
void ClusterSim::CheckPatience(const JobRecord& job) const {
  if (job.stop_reason != NameOf(ExitReason::kWorkerLost)) return;  // it ended in any case
  for (const RankRecord& rank : job.ranks) {
    if (rank.state == RankState::kLost && MayBeGivenUpForGood(rank.worker)) return;
  }
  Check(job.restart.has_value() && job.restart->on.contains(RestartCause::kNodeLoss),
        "a run that nobody could continue elsewhere outlasts a cut");
  Check(!MakesSteps(job), "a run that makes steps outlasts a cut");
}

// An attempt starts after that of `before`. Nothing fences a job that saves nothing.
void ClusterSim::CheckUnfenced(const JobRecord& job, const Seen& before) const {
  if (job.saves || before.workers.empty() || before.for_good) return;
  for (size_t rank = 0; rank < before.workers.size(); ++rank) {
    const RankKey key = {job.uid, before.epoch.value(), static_cast<int32_t>(rank)};
    for (const Node& node : nodes_) {
      if (node.id != before.workers[rank]) continue;
      const auto found = node.trainers.find(key);
      const bool trains = found != node.trainers.end() && found->second.alive &&
                          !found->second.stopping && !found->second.terminated &&
                          !found->second.exits;
      if (!trains) return;                         // which ends the others, too
      if (node.session != 0 && !node.cut) return;  // the stop will reach it
    }
  }
  Check(false, "no attempt starts beside one that nothing fences and that trains on");
}

// What the node had already when it registered may have happened long ago.
void ClusterSim::NoteStep(const Node& node, const RankReported& report) {
  if (!std::holds_alternative<StepDone>(report.report)) return;
  for (const v1alpha1::HeldRank& held : node.offered) {
    if (daemon::KeyOf(held) == RankKey{report.job_uid, report.epoch.value(), report.rank.value()} &&
        report.sequence <= held.last_sequence()) {
      return;
    }
  }
  since_step_[{report.job_uid, report.epoch.value()}] = absl::ZeroDuration();
}

bool ClusterSim::MakesSteps(const JobRecord& job) const {
  const auto found = since_step_.find({job.uid, job.epoch.value()});
  return found != since_step_.end() && found->second < lost_rank_timeout_ - absl::Seconds(2);
}

void ClusterSim::CordonOrNot(Node& node) {
  if (Pick(2) == 0) {
    Submit(UncordonWorker{node.id});
  } else if (Submit(CordonWorker{node.id, "by request", /*drain=*/Pick(2) == 0}).status.ok()) {
    ++probes_["cordoned"];
  }
}

// Asks only for those that are cordoned, because each request is a commit.
void ClusterSim::UncordonAll() {
  for (const Node& node : nodes_) {
    const bool cordoned = driver_->Read([&node](const Core& core) {
      const Worker* worker = core.FindWorker(node.id);
      return worker != nullptr && !worker->record.cordon.empty();
    });
    if (cordoned) Submit(UncordonWorker{node.id});
  }
}

}  // namespace stretto::coordinator::testing
