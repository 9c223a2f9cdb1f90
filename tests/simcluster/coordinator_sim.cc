// SPDX-License-Identifier: Apache-2.0
#include "tests/simcluster/coordinator_sim.h"

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/gang.h"

namespace stretto::coordinator::testing {

ClusterSim::ClusterSim(uint64_t seed, Probes& probes, const SimOptions& options)
    : options_(options), random_(seed), probes_(probes) {
  OpenStore();
  // The short one would end a lease and its ranks at once.
  lost_rank_timeout_ = Pick(4) == 0 && !options_.healthy_nodes ? absl::ZeroDuration()
                                                               : CoreOptions().lost_rank_timeout;
  lost_run_timeout_ = absl::Seconds(Pick(2) == 0 ? 20 : 120);
  if (Pick(4) == 0) keep_jobs_ = 2;
  if (Pick(3) == 0) quotas_ = {{"default", {.queued = 4}}, {"speech", {.devices = 2}}};
  const auto empty = store_->Load();
  Check(empty.ok(), "the store can be read");
  driver_ = std::make_unique<Driver>(*Core::Restore(*empty, Options(), wall_), *this, *this);
  calm_ = options.healthy_nodes;
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
  for (const Node& node : nodes_) CheckNode(node);
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
  Connect(node);
  Train(node, /*may_fail=*/false);
  Look(node);
  Write(node);
  DeliverUp(node);
  DeliverDown(node);
}

void ClusterSim::StepAny() {
  if (asks_) AskForCheckpoint();
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
  } else if (dice < 555) {
    Look(node);
  } else if (dice < 700) {
    Train(node, /*may_fail=*/true);
    if (Pick(2) == 0) Look(node);
  } else if (dice < 850) {
    Write(node);
  } else if (dice < 900) {
    Connect(node);
  } else if (dice < 915) {
    Break(node, /*seen_by_coordinator=*/Pick(2) == 0);
  } else if (dice < 918) {
    RestartDaemon(node);
  } else if (dice < 920) {
    TerminateDaemon(node);
  } else if (dice < 925) {
    RestartCoordinator();
  } else if (dice < 935) {
    FailStore();
  } else if (dice < 945) {
    FailOrRepairGpu(node);
  } else if (dice < 949) {
    ++probes_["disk of a node full"];
    node.full_until = monotonic_ + absl::Seconds(1 + Pick(30));
  } else if (dice < 950) {
    KnockAsAStranger(node);
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
  calm_ = true;
  store_->FailCommit(0, FaultyStore::Fault::kNone);
  if (disk_ != nullptr) disk_->DieAfter(INT64_MAX);
  std::vector<int32_t> cores, gpus;  // by node
  for (Node& node : nodes_) {
    node.faulty.clear();
    node.full_until = absl::ZeroDuration();
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
    if (!busy) {
      CheckCore(/*all=*/true);
      return CheckEnd();
    }
    for (Node& node : nodes_) Serve(node);
    PassTime(absl::Seconds(1), /*all_alive=*/true);
    CheckCore();
    for (const Node& node : nodes_) CheckNode(node);
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
  // What the store refused has happened all the same, and its response may have been lost alone.
  if ((result.status.ok() || IsOfStore(result.status)) && registered != nullptr)
    NoteHeld(*registered);
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
  // Some are long enough to answer a request for a checkpoint.
  create.total_steps = options_.patient && Pick(4) == 0 ? kLongJob : 3;
  steps_of_[create.uid] = static_cast<int32_t>(create.total_steps);
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
    asks_ = true;
    AskForCheckpoint();
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

// Seldom does a job run at the time of the wish.
void ClusterSim::AskForCheckpoint() {
  const std::string runs = driver_->Read([](const Core& core) {
    for (const JobRecord* job : core.Jobs())
      if (job->state == JobState::kRunning) return job->id;
    return std::string();
  });
  asks_ = runs.empty() && options_.patient;
  if (runs.empty()) return;
  probes_["checkpoint asked"] += Submit(CheckpointJob{runs}).status.ok();
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
  if (job.retire_time) return CheckRetired(job);
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

}  // namespace stretto::coordinator::testing
