// SPDX-License-Identifier: Apache-2.0

// The nodes: trainers, and the daemon that watches them. What it decides about its trainers is
// decided by the real table; here is what the supervisor has around it: processes, and the notes in
// their run folders.

#include <algorithm>

#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

using daemon::Assignment;
using daemon::TrainerTable;

using Report = daemon::ReportTable::Report;

Report ExitOf(const std::string& reason, int32_t code, int32_t signal = 0) {
  Report report;
  report.mutable_exit()->set_exit_code(code);
  report.mutable_exit()->set_signal(signal);
  report.mutable_exit()->set_reason(reason);
  return report;
}

google::protobuf::Timestamp ToMessage(absl::Time time) {
  google::protobuf::Timestamp message;
  message.set_seconds(absl::ToUnixSeconds(time));
  return message;
}

Report PreparedAt(absl::Time time) {
  Report report;
  *report.mutable_prepared()->mutable_time() = ToMessage(time);
  return report;
}

Report StepDoneAt(int64_t step, absl::Time time) {
  Report report;
  report.mutable_step()->set_step(step);
  *report.mutable_step()->mutable_end_time() = ToMessage(time);
  return report;
}

}  // namespace

// ---- trainers

void ClusterSim::Train(Node& node, bool may_fail) {
  for (const auto& [key, trainer] : node.trainers) {
    if (!trainer.alive || (trainer.terminated && trainer.deaf)) continue;
    if (trainer.exits && may_fail && Pick(4) == 0) continue;
    return TrainOne(node, key, may_fail);
  }
}

void ClusterSim::TrainOne(Node& node, const RankKey& key, bool may_fail) {
  Trainer& trainer = node.trainers.at(key);
  const int32_t facts = trainer.facts++;
  if (trainer.exits) {
    trainer.alive = false;
  } else if (trainer.terminated) {
    Tell(node, key, ExitOf("Cancelled", 0));
    trainer.alive = false;
  } else if (may_fail && Pick(40) == 0) {
    if (Pick(3) == 0) Tell(node, key, ExitOf("PeerLost", 1));
    trainer.alive = false;
  } else if (facts == 0) {
    Tell(node, key, PreparedAt(wall_));
  } else if (trainer.save > trainer.answered || (facts == 3 && Pick(2) == 0)) {
    trainer.answered = trainer.save;
    Report report;
    v1alpha1::CheckpointReport* checkpoint = report.mutable_checkpoint();
    checkpoint->set_step(2);
    checkpoint->set_name("step-00000002");
    checkpoint->set_ok(Pick(4) != 0);
    checkpoint->set_message("full");
    checkpoint->set_request(trainer.save);
    Tell(node, key, std::move(report));
  } else if (facts <= steps_of_[key.job_uid]) {
    Tell(node, key, StepDoneAt(facts, wall_));
  } else {
    Tell(node, key, ExitOf("Completed", 0));
    // The daemon reads the report before the process has ended.
    trainer.alive = Pick(4) == 0;
    trainer.terminated = trainer.deaf = trainer.alive && may_fail && Pick(2) == 0;
    if (trainer.alive) node.table.ExpectExit(key, monotonic_, kGrace);
    if (trainer.alive && !trainer.stopping) trainer.until = monotonic_ + kGrace;
  }
}

void ClusterSim::Kill(Trainer& trainer) const {
  Check(monotonic_ >= trainer.until, "a trainer has its whole grace");
  trainer.alive = false;
}

// ---- the daemon

// What its watching thread does.
void ClusterSim::Look(Node& node) {
  for (const RankKey& key : std::exchange(node.catch_up, {})) CatchUp(node, key);
  for (const TrainerTable::Signal& signal : node.table.TakeDue(monotonic_)) {
    Trainer& trainer = node.trainers.at(signal.key);
    if (!trainer.alive) continue;
    if (signal.kill) {
      ++probes_["killed after its grace"];
      Kill(trainer);
    } else if (!trainer.terminated) {
      trainer.terminated = true;
      trainer.deaf = !calm_ && Pick(8) == 0;
    }
  }
  std::vector<RankKey> ended;
  for (const auto& [key, trainer] : node.trainers) {
    Check(!trainer.alive || monotonic_ <= trainer.until,
          "a trainer that does not end is killed after its grace");
    if (!trainer.alive && node.table.Find(key) != nullptr) ended.push_back(key);
  }
  for (const RankKey& key : ended) HandleEnd(node, key);
  if (!node.closes_at.has_value()) return;
  if (!node.table.trainers().empty() && monotonic_ < *node.closes_at) return;
  Break(node, /*seen_by_coordinator=*/true);
  ++node.incarnation;
  Adopt(node);
}

// Its exit may leave the node. Returns whether the rank failed by itself.
bool ClusterSim::End(Node& node, const RankKey& key, bool stopped) {
  node.trainers.at(key).ended = true;
  const std::optional<v1alpha1::RankExit> exit = node.reports.Exit(key);
  node.reports.End(key, stopped);
  node.order.Wake();
  return !stopped && exit.has_value() && (exit->exit_code() != 0 || exit->signal() != 0);
}

void ClusterSim::HandleEnd(Node& node, const RankKey& key) {
  CatchUp(node, key);
  EndProcess(node, key);
  const bool failed = End(node, key, node.table.Find(key)->stopping);
  if (failed) node.broken.emplace(key.job_uid, key.epoch);
  CarryOut(node, node.table.Ended(key, failed), kGrace, /*ask=*/false);
  if (node.trainers.at(key).done) node.trainers.erase(key);
  StartFree(node);
}

// The daemon reports how it ended, unless the trainer has.
void ClusterSim::EndProcess(Node& node, const RankKey& key) {
  const bool told = node.reports.Exit(key).has_value();
  Trainer& trainer = node.trainers.at(key);
  if (!told && !trainer.unwritten.empty()) lossy_.insert(key);
  trainer.unwritten.clear();
  if (!told) Append(node, key, ExitOf("Killed", 0, 9));
}

void ClusterSim::CarryOut(Node& node, const TrainerTable::Effects& effects, absl::Duration grace,
                          bool ask) {
  for (const Assignment& assign : effects.unstarted) {
    ++probes_["stopped while it waited"];
    for (const v1alpha1::RankSlot& rank : assign->ranks()) {
      const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
      if (!node.trainers.contains(key)) {
        ReportUnstarted(node, key, *assign, rank.slot(), "Cancelled");
      }
    }
  }
  for (const RankKey& key : effects.stop) {
    Trainer& trainer = node.trainers.at(key);
    trainer.stopping = true;
    const bool reached = ask && trainer.alive && Pick(4) != 0;
    if (reached) trainer.terminated = true;
    trainer.until = std::min(trainer.until, monotonic_ + grace);
    node.table.Asked(key, monotonic_, grace, reached);
  }
}

void ClusterSim::StartFree(Node& node) {
  for (const Assignment& assign : node.table.TakeFree()) StartRanks(node, assign);
}

void ClusterSim::StartRanks(Node& node, const Assignment& assign) {
  bool failed = false;
  for (const v1alpha1::RankSlot& rank : assign->ranks()) {
    const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
    if (node.trainers.contains(key)) continue;
    const bool may = !failed && node.table.MayStart(key).ok();
    if (may && (calm_ || Pick(DiskFull(node) ? 3 : 50) != 0)) {
      const auto stopped = node.stopped.find(key.job_uid);
      Check(stopped == node.stopped.end() || key.epoch > stopped->second,
            "an epoch that was stopped here never starts");
      CreateRank(node, key, assign->job_id(), rank.slot());
      if (DiskFull(node) || (!calm_ && Pick(20) == 0)) WarnOfLog(node, key);
      node.table.Started(key, rank.slot());
      continue;
    }
    ReportUnstarted(node, key, *assign, rank.slot(), may ? "SpawnFailed" : "Cancelled");
    failed = true;
  }
  if (!failed) return;
  ++probes_["gang that could not start"];
  CarryOut(node, node.table.Stop(assign->job_uid(), assign->epoch(), "a rank did not start"),
           kGrace, /*ask=*/false);
}

ClusterSim::Trainer& ClusterSim::CreateRank(Node& node, const RankKey& key,
                                            const std::string& job_id, int32_t slot) {
  ForgetReports(key);  // a rank whose folder was lost begins anew
  Trainer& trainer = node.trainers[key];
  trainer.job_id = job_id;
  trainer.slot = slot;
  AddRank(node, key);
  return trainer;
}

// It starts without a file for its output.
void ClusterSim::WarnOfLog(Node& node, const RankKey& key) {
  Report warning;
  warning.mutable_warning()->set_condition("LogIntact");
  warning.mutable_warning()->set_reason("LogNotWritable");
  Append(node, key, std::move(warning));
}

void ClusterSim::ReportUnstarted(Node& node, const RankKey& key, const v1alpha1::Assign& assign,
                                 int32_t slot, const std::string& reason) {
  CreateRank(node, key, assign.job_id(), slot).alive = false;
  Append(node, key, ExitOf(reason, 127));
  End(node, key, /*stopped=*/reason == "Cancelled");
}

// ---- the end of daemons

void ClusterSim::TerminateDaemon(Node& node) {
  if (node.closes_at.has_value()) return;
  ++probes_["daemon asked to end"];
  node.closes_at = monotonic_ + kGrace + absl::Seconds(5);
  CarryOut(node, node.table.StopAll("the worker is shutting down"), kGrace, /*ask=*/true);
}

void ClusterSim::RestartDaemon(Node& node) {
  // A kernel closes a dead process's sockets.
  Break(node, /*seen_by_coordinator=*/true);
  ++node.incarnation;
  ++probes_["daemon restarted"];
  if (Pick(2) == 0) {
    ShowUpFromOlderEpoch(node);
    std::erase_if(node.trainers, [this](const auto&) { return Pick(2) == 0; });
  }
  Adopt(node);
}

// A new daemon finds what its predecessor left.
void ClusterSim::Adopt(Node& node) {
  node.table = {};
  node.reports = daemon::ReportTable([](const Report&) {}, kMemory);
  node.reconnect = daemon::Reconnect(/*seed=*/random_(), /*addresses=*/1);
  node.retry_at = monotonic_;
  node.catch_up.clear();
  node.stopped.clear();
  node.broken.clear();
  node.closes_at.reset();
  std::vector<RankKey> keys;
  for (const auto& [key, trainer] : node.trainers) {
    node.table.NoteEpoch(key.job_uid, key.epoch);
    keys.push_back(key);
  }
  std::set<std::pair<std::string, int64_t>> broken;
  for (const RankKey& key : keys) {
    if (AdoptRun(node, key)) broken.emplace(key.job_uid, key.epoch);
  }
  for (const auto& [uid, epoch] : broken) {
    CarryOut(node, node.table.Stop(uid, epoch, "a rank ended while no daemon ran"), kGrace, false);
  }
}

// Returns whether the rank failed by itself before this daemon ran.
bool ClusterSim::AdoptRun(Node& node, const RankKey& key) {
  Trainer& trainer = node.trainers.at(key);
  if (!trainer.alive && trainer.done) {
    node.trainers.erase(key);
    return false;
  }
  if (trainer.logged() < std::ssize(written_[key])) {
    ++probes_["reports lost with a daemon"];
    lossy_.insert(key);
  }
  if (!trainer.done) AddRank(node, key);
  if (!trainer.alive) {
    EndProcess(node, key);
    return End(node, key, trainer.stopping);
  }
  const bool ends = node.reports.Exit(key).has_value();
  node.table.Adopted(key, trainer.slot, trainer.stopping, monotonic_, kGrace);
  // Deadlines begin anew.
  trainer.until = absl::InfiniteDuration();
  if (trainer.stopping || ends) trainer.until = monotonic_ + kGrace;
  if (ends) node.table.ExpectExit(key, monotonic_, kGrace);
  // Nobody knows that it should have ended. Its lease on its daemon ends it.
  if (trainer.exits && !ends) trainer.deaf = false;
  if (trainer.done || key.epoch != node.table.NewestEpoch(key.job_uid)) {
    CarryOut(node, node.table.StopOne(key, "left over"), kGrace, /*ask=*/false);
  }
  return false;
}

// As after a node came back from a snapshot: reports in store for ranks that have been given out
// again since.
void ClusterSim::ShowUpFromOlderEpoch(Node& node) {
  if (node.trainers.empty()) return;
  RankKey key = node.trainers.begin()->first;
  if (key.epoch == 0) return;
  key.epoch = static_cast<int64_t>(Pick(static_cast<uint64_t>(key.epoch)));
  for (const Node& other : nodes_) {
    if (other.trainers.contains(key)) return;
  }
  const std::string job_id = node.trainers.begin()->second.job_id;
  Trainer& trainer = CreateRank(node, key, job_id, /*slot=*/0);
  Tell(node, key, PreparedAt(wall_));
  for (int64_t step = 1; step <= 3; ++step) Tell(node, key, StepDoneAt(step, wall_));
  Tell(node, key, ExitOf("Completed", 0));
  trainer.alive = false;
  CatchUp(node, key);
  EndProcess(node, key);
  End(node, key, /*stopped=*/false);
  ++probes_["rank of an older epoch"];
}

void ClusterSim::CheckNode(const Node& node) const {
  std::set<int32_t> used;
  std::map<std::string, int64_t> epochs;
  for (const auto& [key, trainer] : node.trainers) {
    if (!trainer.alive) continue;
    Check(used.insert(trainer.slot).second, "no slot has two processes");
    Check(epochs.emplace(key.job_uid, key.epoch).first->second == key.epoch,
          "no two epochs of a job have processes");
    Check(node.table.Find(key) != nullptr, "each process is in the table of its daemon");
    Check(trainer.stopping || !node.broken.contains({key.job_uid, key.epoch}),
          "a gang that lost a rank is stopped, and nobody joins it");
  }
  for (const Assignment& assign : node.table.waiting()) {
    const auto wants = [&assign](int32_t slot) {
      return std::any_of(assign->ranks().begin(), assign->ranks().end(),
                         [slot](const v1alpha1::RankSlot& rank) { return rank.slot() == slot; });
    };
    const auto holds_up = [&](const auto& entry) {
      const Trainer& trainer = entry.second;
      if (trainer.ended) return false;
      if (entry.first.job_uid == assign->job_uid()) return entry.first.epoch < assign->epoch();
      return trainer.stopping && wants(trainer.slot);
    };
    Check(std::any_of(node.trainers.begin(), node.trainers.end(), holds_up),
          "an assignment waits only for somebody");
  }
}

}  // namespace stretto::coordinator::testing
