// SPDX-License-Identifier: Apache-2.0

// Time, and the faults that only the control plane has. The simulation keeps its own account of how
// long each node was silent while somebody listened: a round counts at most the longest round, and
// not at all if the coordinator could not store at its beginning. No lease may end without such a
// silence, whatever the coordinator's clocks, disk and scheduler do.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

// Events come at the borders of rounds.
constexpr absl::Duration kSlack = absl::Seconds(2);

}  // namespace

CoreOptions ClusterSim::Options() const {
  CoreOptions options;
  options.quotas = quotas_;
  options.lost_rank_timeout = lost_rank_timeout_;
  options.lost_run_timeout = lost_run_timeout_;
  options.keep_jobs = keep_jobs_;
  if (keep_jobs_ < INT64_MAX) options.keep_retired = keep_jobs_ + 1;
  return options;
}

absl::Status ClusterSim::Commit(const std::vector<Record>& records) {
  monotonic_ += next_commit_takes_;
  wall_ += std::exchange(next_commit_takes_, absl::ZeroDuration());
  absl::Status stored = store_->Commit(records);
  if (storing_ && !stored.ok()) CountSilence();
  if (!storing_ && stored.ok()) heard_until_ = monotonic_;
  storing_ = stored.ok();
  committed_ |= storing_;
  NoteCommit(records, storing_);
  return stored;
}

void ClusterSim::CountSilence() {
  const absl::Duration passed =
      std::min(monotonic_ - std::exchange(heard_until_, monotonic_), Options().longest_round);
  for (Node& node : nodes_) node.silent += passed;
  for (auto& [run, since] : since_step_) since += passed;
}

void ClusterSim::PassTime(absl::Duration duration, bool all_alive) {
  std::set<std::string> silent;
  for (const Node& node : nodes_) {
    if (!all_alive && Pick(duration > absl::Seconds(1) ? 3 : 10) == 0) silent.insert(node.id);
  }
  for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
    for (Node& node : nodes_) {
      if (options_.healthy_nodes) Serve(node);
    }
    PassRound(absl::Seconds(1), silent);
  }
}

// What the nodes send arrives, but for that of the `silent` ones. After a gap some of it is read
// only after the tick.
void ClusterSim::PassRound(absl::Duration duration, const std::set<std::string>& silent) {
  monotonic_ += duration;
  wall_ += duration;
  for (Node& node : nodes_) Look(node);
  const absl::Duration round = monotonic_ - std::exchange(last_tick_, monotonic_);
  const bool late = round > Options().longest_round;
  // A commit that takes long is that of the tick or of another event, not of a heartbeat before it.
  const absl::Duration slow = std::exchange(next_commit_takes_, absl::ZeroDuration());
  std::vector<Node*> after;
  if (storing_) CountSilence();
  for (Node& node : nodes_) {
    Write(node);
    if (silent.contains(node.id)) continue;
    if (late && Pick(2) == 0) {
      after.push_back(&node);
    } else {
      Arrive(node);
    }
  }
  next_commit_takes_ = slow;
  after_gap_ = late && storing_ && !after_gap_;
  const bool stored = storing_;
  const bool ticked = Submit(Tick{}).status.ok();
  if (stored && ticked && !late) CheckSilence();
  for (Node* node : after) Arrive(*node);
}

std::vector<SlotHealth> ClusterSim::HealthOf(const Node& node) const {
  std::vector<SlotHealth> health;
  for (int32_t slot = node.slots; slot < node.slots + node.gpus; ++slot) {
    health.push_back({.slot = slot, .fault = node.faulty.contains(slot) ? "lost" : ""});
  }
  return health;
}

void ClusterSim::BreakControlPlane() {
  const absl::Duration duration = absl::Seconds(5 + Pick(60));
  switch (Pick(4)) {
    case 0:
      ++probes_["coordinator stood still"];
      return StandStill(duration);
    case 1:
      ++probes_["slow commit"];
      next_commit_takes_ = duration;
      return;
    case 2:
      ++probes_["disk full"];
      return FillDisk(static_cast<int>(duration / absl::Seconds(1)));
    default:  // 3
      ++probes_["wall clock jumped"];
      wall_ += Pick(2) == 0 ? duration : -60 * duration;
  }
}

// Meanwhile the cluster continues; then everything arrives at once.
void ClusterSim::StandStill(absl::Duration duration) {
  for (int i = 0; i < 10; ++i) {
    Node& node = PickNode();
    Train(node, /*may_fail=*/false);
    Write(node);
  }
  PassRound(duration, /*silent=*/{});
}

void ClusterSim::FillDisk(int rounds) {
  store_->RefuseAll(true);
  for (int i = 0; i < rounds; ++i) {
    for (Node& node : nodes_) Serve(node);
    PassRound(absl::Seconds(1), /*silent=*/{});
  }
  store_->RefuseAll(false);
}

void ClusterSim::CheckSilence() {
  driver_->Read([this](const Core& core) {
    for (const Node& node : nodes_) {
      const Worker* worker = core.FindWorker(node.id);
      Check(worker == nullptr || !worker->ready() ||
                node.silent <= Options().lease + Options().longest_round + kSlack,
            "a silent worker is LOST soon after its lease");
    }
    return 0;
  });
}

void ClusterSim::CheckExpiry(const std::string& worker) {
  Check(!after_gap_, "no lease ends in the round after a gap");
  expired_.insert(worker);
  for (const Node& node : nodes_) {
    Check(node.id != worker || node.silent >= Options().lease - kSlack,
          "no lease ends while its worker is heard, or while the coordinator stands still");
  }
}

void ClusterSim::CheckLosses(const JobRecord& job) {
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    const RankRecord& rank = job.ranks[i];
    const RankKey key{job.uid, job.epoch.value(), static_cast<int32_t>(i)};
    // At a registration, ranks are lost because their worker came back without them.
    if (rank.state != RankState::kLost || !lost_.insert(key).second || !in_tick_) continue;
    Check(!expired_.contains(rank.worker), "a lease and its ranks never end in one event");
    Check(MayBeGivenUp(rank.worker), "no rank is given up by a fault of the control plane alone");
    if (job.first_failure && job.first_failure->rank == static_cast<int32_t>(i)) CheckPatience(job);
  }
}

bool ClusterSim::MayBeGivenUp(const std::string& worker) const {
  return IsSilentFor(worker, lost_rank_timeout_);
}

bool ClusterSim::MayBeGivenUpForGood(const std::string& worker) const {
  return IsSilentFor(worker, lost_run_timeout_);
}

bool ClusterSim::IsSilentFor(const std::string& worker, absl::Duration timeout) const {
  for (const Node& node : nodes_) {
    if (node.id == worker) return node.silent >= Options().lease + timeout - 2 * kSlack;
  }
  return true;
}

}  // namespace stretto::coordinator::testing
