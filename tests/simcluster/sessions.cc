// SPDX-License-Identifier: Apache-2.0

// The sessions of daemons with the coordinator. The daemon's own classes decide when it connects,
// what it sends next and what it does with the answer to its registration; here is what the link
// has around them: two queues, which end with the connection.

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

using daemon::Assignment;
using daemon::TrainerTable;

v1alpha1::Registered ToMessage(const SendRegistered& from) {
  v1alpha1::Registered registered;
  for (const HeldRankReply& held : from.held) {
    v1alpha1::HeldRankReply* reply = registered.add_held();
    reply->set_job_uid(held.job_uid);
    reply->set_epoch(held.epoch.value());
    reply->set_rank(held.rank.value());
    reply->set_keep(held.keep);
    reply->set_acked_sequence(held.acked_sequence);
  }
  return registered;
}

}  // namespace

// ---- connections

void ClusterSim::Connect(Node& node) {
  if (node.session != 0 || monotonic_ < node.retry_at) return;
  if (node.cut) return Retry(node, absl::UnavailableError("no route"), /*registered=*/false);
  const bool registered_before = node.next_beat > absl::ZeroDuration();
  if (!calm_ && registered_before && Pick(50) == 0) return ComeToAnotherCluster(node);
  node.session = next_session_++;
  node.order = daemon::SendOrder(monotonic_);
  node.up.emplace_back(Registration(node));
}

WorkerRegistered ClusterSim::Registration(Node& node) {
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
  node.offered = node.reports.Held();
  for (const v1alpha1::HeldRank& held : node.offered) {
    event.held.push_back({.job_uid = held.job_uid(),
                          .epoch = Epoch(held.epoch()),
                          .rank = Rank::Of(held.rank()),
                          .alive = held.alive(),
                          .last_sequence = held.last_sequence()});
  }
  event.cluster_id = node.membership.cluster_id;
  event.newest_epoch = Epoch(node.membership.newest_epoch);
  return event;
}

// By mistake. That coordinator knows nothing of this worker, and would end all that it runs.
void ClusterSim::ComeToAnotherCluster(Node& node) {
  ++probes_["worker came to another cluster"];
  Snapshot snapshot;
  snapshot.cluster_id = "elsewhere";
  snapshot.epoch.last = Epoch(1'000'000);
  Core other = *Core::Restore(snapshot, Options(), wall_);
  WorkerRegistered event = Registration(node);
  event.session = 1;
  const absl::Status status =
      other.Apply(event, {.wall = wall_, .steady = absl::ZeroDuration()}).status;
  Check(absl::IsPermissionDenied(status), "another cluster refuses the worker of this one");
  Retry(node, status, /*registered=*/false);
}

// A worker of another cluster has the name of one of ours.
void ClusterSim::KnockAsAStranger(const Node& node) {
  WorkerRegistered event;
  event.id = node.id;
  event.incarnation = "stranger";
  event.session = next_session_++;
  event.devices.push_back({.slot = 0, .kind = 1, .description = "", .memory_bytes = 0});
  event.cluster_id = "elsewhere";
  const absl::Status status = Submit(event).status;
  Check(absl::IsPermissionDenied(status), "a cluster refuses the worker of another one");
}

void ClusterSim::Break(Node& node, bool seen_by_coordinator, const absl::Status& why) {
  const int64_t session = std::exchange(node.session, 0);
  const bool registered = std::exchange(node.registered, false);
  node.up.clear();
  node.down.clear();
  if (session == 0) return;
  if (registered) node.reports.Pause();
  if (seen_by_coordinator) Submit(WorkerDisconnected{node.id, session});
  Retry(node, why, registered);
}

void ClusterSim::Retry(Node& node, const absl::Status& status, bool registered) {
  const daemon::Reconnect::Next next = node.reconnect.Ended(status, registered);
  node.retry_at = monotonic_ + next.pause;
  if (!next.refused) return;
  // Its process ends, and the system starts another one.
  ++probes_["daemon refused"];
  ++node.incarnation;
  Adopt(node);
  node.retry_at = monotonic_ + absl::Seconds(1);
}

// ---- to the coordinator

// What the writing thread does, up to one message.
void ClusterSim::Write(Node& node) {
  using Turn = daemon::SendOrder::Turn;
  while (node.session != 0) {
    const Turn turn = node.order.Next(monotonic_);
    if (turn == Turn::kWait) return;
    if (turn == Turn::kGiveUp) {
      ++probes_["registration had no answer"];
      return Break(node, /*seen_by_coordinator=*/Pick(2) == 0, absl::CancelledError("no answer"));
    }
    if (turn == Turn::kHeartbeat) {
      node.up.emplace_back(WorkerHeartbeat{node.id, node.session, HealthOf(node)});
      node.order.SentHeartbeat(monotonic_);
      node.next_beat = monotonic_ + Options().heartbeat_interval;
      continue;
    }
    node.order.Asked();
    const std::optional<Report> report = NextReport(node);
    if (!report.has_value()) continue;
    node.order.Wake();
    Check(monotonic_ < node.next_beat, "no heartbeat waits behind reports");
    CheckSent(node, *report);
    RankReported event = EventOf(*report);
    event.worker = node.id;
    event.session = node.session;
    node.up.emplace_back(std::move(event));
    return;
  }
}

void ClusterSim::DeliverUp(Node& node) {
  if (node.up.empty()) return;
  const Event event = std::move(node.up.front());
  node.up.pop_front();
  if (const auto* report = std::get_if<RankReported>(&event)) return DeliverReport(node, *report);
  const absl::Status status = Submit(event).status;
  // A worker whose registration could not be stored is there all the same.
  const bool registers = std::holds_alternative<WorkerRegistered>(event);
  if (status.ok() || (registers && IsOfStore(status))) node.silent = absl::ZeroDuration();
  if (status.ok()) return;
  Check(!absl::IsPermissionDenied(status), "a cluster accepts its own workers");
  Break(node, /*seen_by_coordinator=*/true, status);
}

void ClusterSim::DeliverReport(Node& node, const RankReported& report) {
  const RankKey key{report.job_uid, report.epoch.value(), report.rank.value()};
  Hear(report);
  const Epoch current = driver_->Read([&report](const Core& core) {
    const JobRecord* job = core.FindJobByUid(report.job_uid);
    return job == nullptr ? Epoch() : job->epoch;
  });
  const Result result = Submit(report);
  const absl::Status& status = result.status;
  if (status.ok()) {
    Check(report.epoch == current, "no report of an older epoch is accepted");
    if (result.fresh) NoteStep(node, report);
    return Count(key, report, result.fresh);
  }
  ++probes_["report refused"];
  Check(!absl::IsOutOfRange(status), "no report leaves a gap");
  if (absl::IsAborted(status) || absl::IsNotFound(status)) return;
  Break(node, /*seen_by_coordinator=*/true, status);
}

// All that a session has sent.
void ClusterSim::Arrive(Node& node) {
  while (node.registered && !node.up.empty()) DeliverUp(node);
}

// ---- from the coordinator

void ClusterSim::DeliverDown(Node& node) {
  if (node.down.empty()) return;
  const Send send = std::move(node.down.front());
  node.down.pop_front();
  std::visit([&](const auto& message) { Receive(node, message); }, send.message);
}

void ClusterSim::Receive(Node& node, const CloseSession& message) {
  Break(node, /*seen_by_coordinator=*/true, message.status);
}

void ClusterSim::Receive(Node& node, const SendRegistered& message) {
  node.registered = true;
  node.membership = daemon::Noted(node.membership, message.cluster_id, 0);
  for (const daemon::HeldAnswer& answer : daemon::AnswersTo(node.offered, ToMessage(message))) {
    if (answer.keep) {
      Check(node.reports.Rewind(answer.key, answer.acked),
            "an answer is about a rank that was offered");
      node.trainers.at(answer.key).resent = 0;
      TakeAck(node, answer.key, answer.acked);
      continue;
    }
    ++probes_["held rank ended"];
    CarryOut(node, node.table.StopOne(answer.key, "the coordinator does not want it any more"),
             message.end_grace, /*ask=*/true);
    node.reports.Drop(answer.key);
    Done(node, answer.key);
  }
  node.order.Registered(monotonic_, message.heartbeat_interval);
  node.next_beat = monotonic_;
}

void ClusterSim::Receive(Node& node, const SendAssign& message) {
  node.membership =
      daemon::Noted(node.membership, node.membership.cluster_id, message.epoch.value());
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
  TakeAck(node, {message.job_uid, message.epoch.value(), message.rank.value()}, message.sequence);
}

void ClusterSim::TakeAck(Node& node, const RankKey& key, int64_t sequence) {
  if (!node.reports.Acked(key, sequence)) return;
  Check(lossy_.contains(key) || counted_ever_[key] == static_cast<int64_t>(written_[key].size()),
        "a rank is done when all its reports have been counted");
  Done(node, key);
}

void ClusterSim::Done(Node& node, const RankKey& key) {
  Trainer& trainer = node.trainers.at(key);
  trainer.done = true;
  if (trainer.ended) node.trainers.erase(key);
}

}  // namespace stretto::coordinator::testing
