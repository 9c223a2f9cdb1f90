// SPDX-License-Identifier: Apache-2.0
#include "tests/simcluster/coordinator_sim.h"

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/gang.h"

namespace stretto::coordinator::testing {
namespace {

bool HasExited(const std::vector<decltype(RankReported::report)>& log) {
  return !log.empty() && std::holds_alternative<RankExited>(log.back());
}

}  // namespace

ClusterSim::ClusterSim(uint64_t seed, Probes& probes, const SimOptions& options)
    : options_(options), random_(seed), probes_(probes) {
  OpenStore();
  // The short one would end a lease and its ranks at once.
  lost_rank_timeout_ = absl::Seconds(Pick(4) == 0 && !options_.healthy_nodes ? 0 : 20);
  lost_run_timeout_ = absl::Seconds(Pick(2) == 0 ? 20 : 120);
  if (Pick(4) == 0) keep_jobs_ = 2;
  if (Pick(3) == 0) quotas_ = {{"default", {.queued = 4}}, {"speech", {.devices = 2}}};
  driver_ = std::make_unique<Driver>(Core(Options()), *this, *this);
  const uint64_t nodes = 1 + Pick(3);
  for (uint64_t i = 0; i < nodes; ++i) {
    Node& node = nodes_.emplace_back();
    node.id = absl::StrCat("node-", i);
    node.slots = static_cast<int32_t>(1 + Pick(3));
    node.gpus = static_cast<int32_t>(Pick(3));
  }
}

void ClusterSim::Step() {
  if (options_.healthy_nodes) {
    StepHealthy();
  } else {
    StepAny();
  }
  if (disk_ != nullptr && disk_->dead()) RestartCoordinator();
  CheckCore();
}

// Nodes and people do nothing wrong, so whatever happens to a job is the control plane's doing.
void ClusterSim::StepHealthy() {
  Node& node = PickNode();
  const uint64_t dice = Pick(1000);
  if (dice < 30) {
    SubmitJob();
  } else if (dice < 600) {
    Serve(node);
  } else if (dice < 620) {
    RestartCoordinator();
  } else if (dice < 640) {
    FailStore();
  } else if (dice < 670) {
    BreakControlPlane();
  } else {
    PassTime(absl::Seconds(Pick(15) == 0 ? 35 : 1), /*all_alive=*/true);
  }
}

// What a node in good order does: it connects, trains, reports and listens.
void ClusterSim::Serve(Node& node) {
  if (node.session == 0) Connect(node);
  Train(node, /*may_fail=*/false);
  SendReport(node, /*repeat=*/false);
  DeliverUp(node);
  DeliverDown(node);
}

void ClusterSim::StepAny() {
  Node& node = PickNode();
  const uint64_t dice = Pick(1000);
  if (dice < 30) {
    SubmitJob();
  } else if (dice < 38) {
    ChangeSomeJob();
  } else if (dice < 40) {
    DeleteSomeJob();
  } else if (dice < 300) {
    DeliverUp(node);
  } else if (dice < 550) {
    DeliverDown(node);
  } else if (dice < 700) {
    Train(node, /*may_fail=*/true);
  } else if (dice < 850) {
    SendReport(node, /*repeat=*/Pick(10) == 0);
  } else if (dice < 900) {
    if (node.session == 0) Connect(node);
  } else if (dice < 915) {
    Break(node, /*seen_by_coordinator=*/Pick(2) == 0);
  } else if (dice < 920) {
    RestartDaemon(node);
  } else if (dice < 925) {
    RestartCoordinator();
  } else if (dice < 935) {
    FailStore();
  } else if (dice < 945) {
    FailOrRepairGpu(node);
  } else if (dice < 955) {
    ShowUpFromOlderEpoch(node);
  } else if (dice < 960) {
    CordonOrNot(node);
  } else if (dice < 965) {
    BreakControlPlane();
  } else if (dice < 968) {
    CutOff(node);
  } else {
    PassTime(absl::Seconds(Pick(15) == 0 ? 35 : 1), /*all_alive=*/false);
  }
}

void ClusterSim::RunToEnd() {
  store_->FailCommit(0, FaultyStore::Fault::kNone);
  if (disk_ != nullptr) disk_->DieAfter(INT64_MAX);
  std::vector<int32_t> cores, gpus;  // by node
  for (Node& node : nodes_) {
    node.faulty.clear();
    cores.push_back(node.slots);
    gpus.push_back(node.gpus);
  }
  for (int round = 0; round < 5000; ++round) {
    UncordonAll();
    for (int64_t job = 1; round == 0 && job < next_job_; ++job) {
      const std::string id = absl::StrCat("job-", job);
      const bool suspended = driver_->Read([&](const Core& core) {
        const JobRecord* found = core.FindJob(id);
        return found != nullptr &&
               (found->state == JobState::kSuspending || found->state == JobState::kSuspended);
      });
      if (suspended) Submit(CancelJob{id});
    }
    const bool busy = driver_->Read([&](const Core& core) {
      for (const JobRecord* job : core.Jobs()) {
        // A job may be too large for all workers together, and its blocks for any of them.
        const std::vector<int32_t>& room = job->device_kind == kGpuKind ? gpus : cores;
        if (!IsEnded(job->state) && !DealGang(room, core.Queued(*job).gang).empty()) return true;
      }
      return false;
    });
    if (!busy) return CheckEnd();
    for (Node& node : nodes_) Serve(node);
    PassTime(absl::Seconds(1), /*all_alive=*/true);
    CheckCore();
  }
  Check(false, "every job ends when there are no more faults");
}

// ---- the coordinator's side

Result ClusterSim::Submit(const Event& event) {
  expired_.clear();
  committed_ = false;
  in_tick_ = std::holds_alternative<Tick>(event);
  Result result = driver_->Submit(event, {.wall = wall_, .steady = monotonic_});
  if (!result.status.ok() && !storing_) ++probes_["store failed"];
  const auto* create = std::get_if<CreateJob>(&event);
  if (result.status.ok() && create != nullptr) accepted_.insert(create->job_id);
  const auto* registered = std::get_if<WorkerRegistered>(&event);
  if (result.status.ok() && registered != nullptr) NoteHeld(*registered);
  // Nothing else places a job or ends an attempt.
  if (committed_ || in_tick_) {
    driver_->Read([this](const Core& core) {
      CheckQueues(core);
      CheckAttempts(core);
      return 0;
    });
  }
  return result;
}

void ClusterSim::SubmitJob() {
  CreateJob create;
  create.job_id = absl::StrCat("job-", next_job_);
  create.uid = absl::StrCat("uid-", next_job_++);
  const auto size = static_cast<int32_t>(1 + Pick(3));
  create.gang.stages.assign(1 + Pick(2), {.blocks = size == 1 ? 2 : 1, .size = size});
  create.gang.split_blocks = Pick(4) == 0;
  create.device_kind = Pick(3) == 0 ? kGpuKind : 1;
  create.total_steps = 3;
  create.priority = static_cast<int32_t>(Pick(4)) - 1;
  if (Pick(2) == 0) create.project = "speech";
  create.saves = Pick(5) != 0;
  if (Pick(2) == 0) {
    create.restart = {.max = static_cast<int32_t>(Pick(2)),
                      .backoff = absl::Seconds(Pick(5)),
                      .on = {RestartCause::kCrash, RestartCause::kNodeLoss}};
    if (Pick(2) == 0) create.restart->on.insert(RestartCause::kPreemption);
    if (Pick(2) == 0) create.fallbacks = {{.stages = {{.blocks = 2}}}, {}};
    for (Gang& gang : create.fallbacks) gang.split_blocks = create.gang.split_blocks;
  }
  Submit(create);
}

std::string ClusterSim::SomeJob() {
  return absl::StrCat("job-", 1 + Pick(static_cast<uint64_t>(next_job_)));
}

void ClusterSim::ChangeSomeJob() {
  const std::string id = SomeJob();
  const uint64_t dice = Pick(5);
  if (dice == 4) {
    const std::string runs = driver_->Read([](const Core& core) {
      for (const JobRecord* job : core.Jobs())
        if (job->state == JobState::kRunning) return job->id;
      return std::string();
    });
    probes_["checkpoint asked"] += Submit(CheckpointJob{runs}).status.ok();
  }
  if (dice == 0) Submit(CancelJob{id});
  if (dice == 1 && Submit(SuspendJob{id}).status.ok()) ++probes_["suspended"];
  if (dice != 2 && dice != 3) return;
  int64_t& resumed = resumed_["uid-" + id.substr(4)];
  ++resumed;  // the event may begin an attempt, and may be stored although its response is lost
  const absl::Status status = Submit(ResumeJob{id}).status;
  if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) --resumed;
  if (!status.ok()) return;
  ended_.erase(id);
  ++probes_["resumed"];
}

void ClusterSim::FailOrRepairGpu(Node& node) {
  if (node.gpus == 0) return;
  const int32_t slot = node.slots + static_cast<int32_t>(Pick(static_cast<uint64_t>(node.gpus)));
  if (node.faulty.insert(slot).second) {
    ++probes_["GPU failed"];
  } else {
    node.faulty.erase(slot);
  }
}

void ClusterSim::DeleteSomeJob() {
  if (Pick(4) == 0) {
    probes_["worker forgotten"] += Submit(ForgetWorker{PickNode().id}).status.ok();
  } else {
    Submit(DeleteJob{absl::StrCat("job-", 1 + Pick(static_cast<uint64_t>(next_job_)))});
  }
}

void ClusterSim::JobDeleted(const ErasedJob& job) {
  ++probes_["job deleted"];
  Check(ended_.erase(job.id) > 0, "only a job that has ended is deleted");
  accepted_.erase(job.id);
}

void ClusterSim::SendToWorker(const Send& send) {
  if (const auto* registered = std::get_if<SendRegistered>(&send.message)) {
    for (const HeldRankReply& reply : registered->held) {
      Check(!reply.keep || reply.epoch == last_epoch_of_[reply.job_uid],
            "a rank of an older epoch is not kept");
    }
  }
  static const JobRecord kNone;
  const auto find = [this](const std::string& id) -> const JobRecord& {
    const auto found = stored_.find(id);
    return found == stored_.end() ? kNone : found->second;
  };
  if (const auto* assign = std::get_if<SendAssign>(&send.message)) {
    const JobRecord& job = find(assign->job_id);
    Check(job.uid == assign->job_uid && job.epoch == assign->epoch && IsActive(job.state),
          "an assignment is stored before it is sent");
    Check(stored_epoch_ >= assign->epoch, "an epoch is stored before it is used");
    const auto owner = epoch_owner_.emplace(assign->epoch.value(), assign->job_uid).first;
    Check(owner->second == assign->job_uid, "an epoch belongs to one job");
    Epoch& last = last_epoch_of_[assign->job_uid];
    Check(last <= assign->epoch, "the epochs of a job never go back");
    last = assign->epoch;
  }
  if (const auto* stop = std::get_if<SendStop>(&send.message)) {
    // The event that sends it may also have ended the attempt.
    const JobRecord& job = find(stop->job_id);
    Check(!job.stop_reason.empty() || !IsActive(job.state) || job.epoch > stop->epoch,
          "a stop is stored before it is sent");
  }
  if (const auto* save = std::get_if<SendSave>(&send.message)) {
    Check(find(save->job_id).checkpoint_request >= save->request,
          "a request for a checkpoint is stored before it is sent");
  }
  for (Node& node : nodes_) {
    if (node.id == send.worker && node.session == send.session) node.down.push_back(send);
  }
  const auto* close = std::get_if<CloseSession>(&send.message);
  if (close != nullptr && absl::IsUnavailable(close->status)) CheckExpiry(send.worker);
}

void ClusterSim::JobChanged(const JobRecord& job) {
  if (job.state == JobState::kPending && job.attempt > 0) {
    ++probes_[job.attempts.back().cause == RestartCause::kPreemption ? "preempted" : "restarts"];
  }
  CheckLosses(job);
  CheckHarmed(job);
  if (!IsEnded(job.state)) return;
  ended_.emplace(job.id, job);
  ++probes_[JobStateName(job.state)];
  if (job.first_failure) ++probes_[job.first_failure->reason];
  Check(!job.summary.empty(), "a summary comes with the end");
}

// ---- the nodes' side

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
  for (auto& [key, trainer] : node.trainers) {
    event.held.push_back({.job_uid = std::get<0>(key),
                          .epoch = Epoch(std::get<1>(key)),
                          .rank = Rank::Of(std::get<2>(key)),
                          .alive = trainer.alive,
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

void ClusterSim::RestartDaemon(Node& node) {
  // A kernel closes a dead process's sockets.
  Break(node, /*seen_by_coordinator=*/true);
  ++node.incarnation;
  ++probes_["daemon restarted"];
  if (Pick(2) == 0) return;  // adopts all
  ShowUpFromOlderEpoch(node);
  std::erase_if(node.trainers, [this](const auto&) { return Pick(2) == 0; });
}

// As after a node came back from a snapshot: reports in store for ranks that have been given out
// again since.
void ClusterSim::ShowUpFromOlderEpoch(Node& node) {
  if (node.trainers.empty()) return;
  const auto [uid, epoch, rank] = node.trainers.begin()->first;
  if (epoch == 0) return;
  Trainer& trainer =
      node.trainers[{uid, static_cast<int64_t>(Pick(static_cast<uint64_t>(epoch))), rank}];
  if (!trainer.log.empty()) return;
  trainer.alive = false;
  trainer.log.emplace_back(RankPrepared{wall_});
  for (int64_t step = 1; step <= 3; ++step) trainer.log.emplace_back(StepDone{step, wall_});
  RankExited exit;
  exit.reason = "Completed";
  trainer.log.emplace_back(exit);
  ++probes_["rank of an older epoch"];
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

void ClusterSim::Receive(Node& node, const SendRegistered& message) {
  node.registered = true;
  for (const HeldRankReply& reply : message.held) {
    const RankKey key{reply.job_uid, reply.epoch.value(), reply.rank.value()};
    const auto found = node.trainers.find(key);
    Check(found != node.trainers.end(), "an answer is about a rank that was named");
    if (reply.keep) {
      found->second.sent = reply.acked_sequence;
    } else {
      node.trainers.erase(found);
      ++probes_["held rank ended"];
    }
  }
}

void ClusterSim::Receive(Node& node, const SendAssign& message) {
  for (const AssignedRank& rank : message.ranks) {
    const RankKey key{message.job_uid, message.epoch.value(), rank.rank.value()};
    if (node.trainers.contains(key)) continue;
    for (auto& [other, trainer] : node.trainers) {
      if (std::get<0>(other) == message.job_uid && std::get<1>(other) < message.epoch.value())
        trainer.alive = false;  // a daemon kills what is left of an older attempt
    }
    for (const auto& [other, trainer] : node.trainers) {
      Check(!trainer.alive || trainer.slot != rank.slot, "a node's slot has one live trainer");
    }
    node.trainers[key].slot = rank.slot;
  }
}

void ClusterSim::Receive(Node& node, const SendStop& message) {
  for (auto& [key, trainer] : node.trainers) {
    if (std::get<0>(key) != message.job_uid || !trainer.alive) continue;
    if (std::get<1>(key) > message.epoch.value()) continue;
    RankExited exit;
    exit.reason = "Cancelled";
    exit.stopped_by_daemon = true;
    trainer.alive = false;
    trainer.log.emplace_back(exit);
  }
}

void ClusterSim::Receive(Node& node, const SendAck& message) {
  const auto found =
      node.trainers.find({message.job_uid, message.epoch.value(), message.rank.value()});
  if (found == node.trainers.end()) return;
  const std::vector<decltype(RankReported::report)>& log = found->second.log;
  if (HasExited(log) && message.sequence == static_cast<int64_t>(log.size())) {
    node.trainers.erase(found);
  }
}

void ClusterSim::SendReport(Node& node, bool repeat) {
  if (!node.registered) return;
  for (auto& [key, trainer] : node.trainers) {
    const bool unsent = trainer.sent < static_cast<int64_t>(trainer.log.size());
    if (repeat ? trainer.sent == 0 : !unsent) continue;
    if (!repeat) ++trainer.sent;
    if (repeat) ++probes_["report repeated"];
    const int64_t sequence =
        repeat ? static_cast<int64_t>(1 + Pick(static_cast<uint64_t>(trainer.sent))) : trainer.sent;
    node.up.push_back(RankReported{.worker = node.id,
                                   .session = node.session,
                                   .job_uid = std::get<0>(key),
                                   .epoch = Epoch(std::get<1>(key)),
                                   .rank = Rank::Of(std::get<2>(key)),
                                   .sequence = sequence,
                                   .report = trainer.log[static_cast<size_t>(sequence) - 1]});
    return;
  }
}

void ClusterSim::Train(Node& node, bool may_fail) {
  for (auto& [key, trainer] : node.trainers) {
    if (!trainer.alive) continue;
    const size_t done = trainer.log.size();
    if (may_fail && Pick(40) == 0) {
      RankExited exit;
      exit.signal = 9;
      exit.reason = Pick(3) == 0 ? "PeerLost" : "Killed";
      trainer.alive = false;
      trainer.log.emplace_back(exit);
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
      RankExited exit;
      exit.reason = "Completed";
      trainer.alive = false;
      trainer.log.emplace_back(exit);
    }
    return;
  }
}

}  // namespace stretto::coordinator::testing
