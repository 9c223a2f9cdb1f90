// SPDX-License-Identifier: Apache-2.0

// The nodes: sessions, trainers, and the daemon. What it decides about its trainers is decided by
// the real table; here are what the supervisor has around it: processes, the notes in their run
// folders, and the reports of the relay. An exit leaves the node when the daemon has seen it.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

using daemon::Assignment;
using daemon::TrainerTable;

constexpr absl::Duration kGrace = absl::Seconds(10);  // --stop-grace; also after a last report

RankExited ExitOf(const std::string& reason, int32_t code, int32_t signal = 0) {
  RankExited exit;
  exit.exit_code = code;
  exit.signal = signal;
  exit.reason = reason;
  return exit;
}

}  // namespace

// ---- sessions

void ClusterSim::Connect(Node& node) {
  node.session = next_session_++;
  WorkerRegistered event;
  event.id = node.id;
  event.incarnation = absl::StrCat("incarnation-", node.incarnation);
  event.session = node.session;
  for (int32_t slot = 0; slot < node.slots + node.gpus; ++slot) {
    event.devices.push_back({.slot = slot,
                             .kind = slot < node.slots ? 1 : kGpuKind,
                             .description = "",
                             .memory_bytes = 0,
                             .fault = node.faulty.contains(slot) ? "lost" : ""});
  }
  node.table.ForgetWaiting();
  for (auto& [key, trainer] : node.trainers) {
    if (trainer.dropped) continue;
    event.held.push_back({.job_uid = key.job_uid,
                          .epoch = Epoch(key.epoch),
                          .rank = Rank::Of(key.rank),
                          .alive = !trainer.ended,
                          .last_sequence = static_cast<int64_t>(trainer.log.size())});
  }
  node.up.push_back(std::move(event));
}

void ClusterSim::Break(Node& node, bool seen_by_coordinator) {
  const int64_t session = std::exchange(node.session, 0);
  node.registered = false;
  node.up.clear();
  node.down.clear();
  if (session != 0 && seen_by_coordinator) Submit(WorkerDisconnected{node.id, session});
}

void ClusterSim::Hear(const RankReported& report) {
  Heard& heard = heard_[{report.job_uid, report.epoch.value(), report.rank.value()}];
  heard.prepared |= std::holds_alternative<RankPrepared>(report.report);
  heard.exited |= std::holds_alternative<RankExited>(report.report);
  const auto* step = std::get_if<StepDone>(&report.report);
  if (step != nullptr) heard.last_step = std::max(heard.last_step, step->step);
}

void ClusterSim::DeliverUp(Node& node) {
  if (node.up.empty()) return;
  const Event event = std::move(node.up.front());
  node.up.pop_front();
  if (const auto* report = std::get_if<RankReported>(&event)) Hear(*report);
  const Result result = Submit(event);
  if (result.status.ok()) {
    if (std::holds_alternative<WorkerRegistered>(event)) node.silent = absl::ZeroDuration();
    return;
  }
  const absl::StatusCode code = result.status.code();
  if (std::holds_alternative<RankReported>(event)) {
    ++probes_["report refused"];
    if (code == absl::StatusCode::kAborted || code == absl::StatusCode::kNotFound) return;
  }
  Break(node, /*seen_by_coordinator=*/true);
}

void ClusterSim::DeliverDown(Node& node) {
  if (node.down.empty()) return;
  const Send send = std::move(node.down.front());
  node.down.pop_front();
  std::visit([&](const auto& message) { Receive(node, message); }, send.message);
}

void ClusterSim::Receive(Node& node, const CloseSession&) {
  Break(node, /*seen_by_coordinator=*/true);
}

void ClusterSim::Receive(Node& node, const SendRegistered& message) {
  node.registered = true;
  for (const HeldRankReply& reply : message.held) {
    const RankKey key{reply.job_uid, reply.epoch.value(), reply.rank.value()};
    const auto found = node.trainers.find(key);
    Check(found != node.trainers.end(), "an answer is about a rank that was named");
    if (reply.keep) {
      found->second.sent = reply.acked_sequence;
      continue;
    }
    ++probes_["held rank ended"];
    CarryOut(node, node.table.StopOne(key, "the coordinator does not want it any more"),
             message.end_grace, /*ask=*/true);
    found->second.dropped = true;
    if (found->second.ended) node.trainers.erase(found);
  }
}

void ClusterSim::Receive(Node& node, const SendAssign& message) {
  if (node.closes_at.has_value()) return;
  v1alpha1::Assign assign;
  assign.set_job_id(message.job_id);
  assign.set_job_uid(message.job_uid);
  assign.set_epoch(message.epoch.value());
  for (const AssignedRank& rank : message.ranks) {
    v1alpha1::RankSlot* slot = assign.add_ranks();
    slot->set_rank(rank.rank.value());
    slot->set_slot(rank.slot);
  }
  const auto shared = std::make_shared<const v1alpha1::Assign>(std::move(assign));
  const absl::StatusOr<TrainerTable::Effects> effects = node.table.Assign(shared);
  if (!effects.ok()) return;
  CarryOut(node, *effects, kGrace, /*ask=*/false);
  StartFree(node);
  const std::vector<Assignment>& waiting = node.table.waiting();
  probes_["assignment waited"] += std::count(waiting.begin(), waiting.end(), shared);
}

void ClusterSim::Receive(Node& node, const SendStop& message) {
  int64_t& stopped = node.stopped[message.job_uid];
  stopped = std::max(stopped, message.epoch.value());
  CarryOut(node, node.table.Stop(message.job_uid, message.epoch.value(), message.reason),
           message.grace, message.checkpoint);
}

void ClusterSim::Receive(Node& node, const SendSave& message) {
  const auto found = node.trainers.find({message.job_uid, message.epoch.value(), 0});
  if (found != node.trainers.end()) found->second.save = message.request;
}

void ClusterSim::Receive(Node& node, const SendAck& message) {
  const auto found =
      node.trainers.find({message.job_uid, message.epoch.value(), message.rank.value()});
  if (found == node.trainers.end() || !found->second.ended) return;
  if (message.sequence == static_cast<int64_t>(found->second.log.size())) {
    node.trainers.erase(found);
  }
}

void ClusterSim::SendReport(Node& node, bool repeat) {
  if (!node.registered) return;
  for (auto& [key, trainer] : node.trainers) {
    const bool held_back = trainer.has_exit() && !trainer.ended;
    const int64_t may_go = static_cast<int64_t>(trainer.log.size()) - (held_back ? 1 : 0);
    if (trainer.dropped || (repeat ? trainer.sent == 0 : trainer.sent >= may_go)) continue;
    if (!repeat) ++trainer.sent;
    if (repeat) ++probes_["report repeated"];
    const int64_t sequence =
        repeat ? static_cast<int64_t>(1 + Pick(static_cast<uint64_t>(trainer.sent))) : trainer.sent;
    node.up.push_back(RankReported{.worker = node.id,
                                   .session = node.session,
                                   .job_uid = key.job_uid,
                                   .epoch = Epoch(key.epoch),
                                   .rank = Rank::Of(key.rank),
                                   .sequence = sequence,
                                   .report = trainer.log[static_cast<size_t>(sequence) - 1]});
    return;
  }
}

// ---- trainers

void ClusterSim::Train(Node& node, bool may_fail) {
  for (auto& [key, trainer] : node.trainers) {
    if (!trainer.alive || (trainer.terminated && trainer.deaf)) continue;
    const size_t done = trainer.log.size();
    if (trainer.has_exit()) {
      if (may_fail && Pick(4) == 0) continue;
      trainer.alive = false;
    } else if (trainer.terminated) {
      trainer.log.emplace_back(ExitOf("Cancelled", 0));
      trainer.alive = false;
    } else if (may_fail && Pick(40) == 0) {
      const bool lost_peer = Pick(3) == 0;
      trainer.log.emplace_back(lost_peer ? ExitOf("PeerLost", 1) : ExitOf("Killed", 0, 9));
      trainer.alive = false;
    } else if (done == 0) {
      trainer.log.emplace_back(RankPrepared{wall_});
    } else if (trainer.save > trainer.answered || (done == 3 && Pick(2) == 0)) {
      trainer.answered = trainer.save;
      trainer.log.emplace_back(CheckpointDone{.step = 2,
                                              .name = "step-00000002",
                                              .ok = Pick(4) != 0,
                                              .message = "full",
                                              .request = trainer.save});
    } else if (done < 4) {
      trainer.log.emplace_back(StepDone{static_cast<int64_t>(done), wall_});
    } else {
      trainer.log.emplace_back(ExitOf("Completed", 0));
      // The daemon reads the report before the process has ended.
      trainer.alive = Pick(4) == 0;
      trainer.terminated = trainer.deaf = trainer.alive && may_fail && Pick(2) == 0;
      if (trainer.alive) node.table.ExpectExit(key, monotonic_, kGrace);
      if (trainer.alive && !trainer.stopping) trainer.until = monotonic_ + kGrace;
    }
    return;
  }
}

void ClusterSim::Kill(Trainer& trainer) const {
  Check(monotonic_ >= trainer.until, "a trainer has its whole grace");
  if (!trainer.has_exit()) trainer.log.emplace_back(ExitOf("Killed", 0, 9));
  trainer.alive = false;
}

// ---- the daemon

// What its watching thread does.
void ClusterSim::Look(Node& node) {
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
  Trainer& trainer = node.trainers.at(key);
  trainer.ended = true;
  auto& exit = std::get<RankExited>(trainer.log.back());
  exit.stopped_by_daemon |= stopped;
  return !stopped && (exit.exit_code != 0 || exit.signal != 0);
}

void ClusterSim::HandleEnd(Node& node, const RankKey& key) {
  const bool failed = End(node, key, node.table.Find(key)->stopping);
  if (failed) node.broken.emplace(key.job_uid, key.epoch);
  CarryOut(node, node.table.Ended(key, failed), kGrace, /*ask=*/false);
  if (node.trainers.at(key).dropped) node.trainers.erase(key);
  StartFree(node);
}

void ClusterSim::CarryOut(Node& node, const TrainerTable::Effects& effects, absl::Duration grace,
                          bool ask) {
  for (const Assignment& assign : effects.unstarted) {
    ++probes_["stopped while it waited"];
    for (const v1alpha1::RankSlot& rank : assign->ranks()) {
      const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
      if (!node.trainers.contains(key)) ReportUnstarted(node, key, rank.slot(), "Cancelled");
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
    if (may && (calm_ || Pick(50) != 0)) {
      const auto stopped = node.stopped.find(key.job_uid);
      Check(stopped == node.stopped.end() || key.epoch > stopped->second,
            "an epoch that was stopped here never starts");
      node.table.Started(key, rank.slot());
      node.trainers[key].slot = rank.slot();
      continue;
    }
    ReportUnstarted(node, key, rank.slot(), may ? "SpawnFailed" : "Cancelled");
    failed = true;
  }
  if (!failed) return;
  ++probes_["gang that could not start"];
  CarryOut(node, node.table.Stop(assign->job_uid(), assign->epoch(), "a rank did not start"),
           kGrace, /*ask=*/false);
}

void ClusterSim::ReportUnstarted(Node& node, const RankKey& key, int32_t slot,
                                 const std::string& reason) {
  Trainer& trainer = node.trainers[key];
  trainer.slot = slot;
  trainer.alive = false;
  trainer.log.emplace_back(ExitOf(reason, 127));
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

// Returns whether the rank failed by itself while no daemon ran.
bool ClusterSim::AdoptRun(Node& node, const RankKey& key) {
  Trainer& trainer = node.trainers.at(key);
  if (!trainer.alive) {
    if (trainer.dropped) {
      node.trainers.erase(key);
      return false;
    }
    return !trainer.ended && End(node, key, trainer.stopping);
  }
  node.table.Adopted(key, trainer.slot, trainer.stopping, monotonic_, kGrace);
  // Deadlines begin anew.
  trainer.until = absl::InfiniteDuration();
  if (trainer.stopping || trainer.has_exit()) trainer.until = monotonic_ + kGrace;
  if (trainer.has_exit()) node.table.ExpectExit(key, monotonic_, kGrace);
  if (trainer.dropped || key.epoch != node.table.NewestEpoch(key.job_uid)) {
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
  if (node.trainers.contains(key)) return;
  Trainer& trainer = node.trainers[key];
  trainer.alive = false;
  trainer.log.emplace_back(RankPrepared{wall_});
  for (int64_t step = 1; step <= 3; ++step) trainer.log.emplace_back(StepDone{step, wall_});
  trainer.log.emplace_back(ExitOf("Completed", 0));
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
