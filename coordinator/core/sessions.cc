// SPDX-License-Identifier: Apache-2.0

// Registration, heartbeats and loss of workers, and the recovery of their ranks.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {

absl::Status Core::CheckCluster(const WorkerRegistered& event) const {
  if (!event.cluster_id.empty() && event.cluster_id != cluster_id_) {
    return absl::PermissionDeniedError(
        absl::StrCat("worker \"", event.id, "\" belongs to cluster ", event.cluster_id,
                     ", expected that of this coordinator, ", cluster_id_,
                     ". If the worker is to change, start it with --join-new-cluster; if this "
                     "coordinator lost its state, restore that first"));
  }
  if (event.newest_epoch > epoch_.last) {
    return absl::PermissionDeniedError(absl::StrCat(
        "worker \"", event.id, "\" has had an assignment of epoch ", event.newest_epoch.value(),
        " of cluster ", cluster_id_, ", expected at most ", epoch_.last.value(),
        ": the coordinator's state is an older copy. Start the coordinator with --restored"));
  }
  return absl::OkStatus();
}

absl::Status Core::Handle(const WorkerRegistered& event) {
  RETURN_IF_ERROR(CheckCluster(event));
  WorkerRecord record;
  record.id = event.id;
  record.incarnation = event.incarnation;
  record.host = event.host;
  record.build = event.build;
  record.devices = event.devices;
  ASSIGN_OR_RETURN(const int64_t taken_over,
                   ChangeWorker(event.id).Register(std::move(record), event.session, Now()));
  ForgetPositions(event.id);
  if (taken_over != 0) {
    effects_.sends.push_back({event.id, taken_over,
                              CloseSession{absl::AbortedError(absl::StrCat(
                                  "a newer session of worker \"", event.id, "\" took over"))}});
  }
  SendTo(event.id, SendRegistered{.lease = options_.lease,
                                  .heartbeat_interval = options_.heartbeat_interval,
                                  .held = ReplyToHeld(event),
                                  .cluster_id = cluster_id_,
                                  .end_grace = options_.checkpoint_grace});
  ShowReturn(event.id);
  RecoverRanks(event);
  ShowFaults(event.id);
  PlaceQueued();
  return absl::OkStatus();
}

// The order of the messages matters to the worker: it learns which ranks to keep before it is told
// to start or to stop any.
void Core::NoteContact(const std::string& worker, absl::Duration steady) {
  membership_.Renew(worker, steady);
}

std::vector<HeldRankReply> Core::ReplyToHeld(const WorkerRegistered& event) const {
  std::vector<HeldRankReply> replies;
  for (const HeldRank& held : event.held) {
    HeldRankReply& reply = replies.emplace_back();
    reply.job_uid = held.job_uid;
    reply.epoch = held.epoch;
    reply.rank = held.rank;
    const JobRecord* job = FindJobByUid(held.job_uid);
    const int32_t rank = held.rank.value();
    if (job == nullptr || job->epoch != held.epoch || rank < 0 ||
        rank >= static_cast<int32_t>(job->ranks.size())) {
      continue;
    }
    const RankRecord& record = job->ranks[rank];
    if (record.worker != event.id || record.state == RankState::kLost) continue;
    // An ended rank may replay its reports even if the job has ended, so that the job's history
    // becomes complete again.
    reply.keep = !held.alive || !IsEnded(job->state);
    if (reply.keep) reply.acked_sequence = jobs_.at(job->id).acked[rank];
  }
  return replies;
}

void Core::RecoverRanks(const WorkerRegistered& event) {
  std::set<std::pair<std::string, int32_t>> held, alive;
  for (const HeldRank& rank : event.held) {
    const JobRecord* job = FindJobByUid(rank.job_uid);
    if (job == nullptr || job->epoch != rank.epoch) continue;
    const int32_t number = rank.rank.value();
    // A worker has nothing to say about the ranks of others.
    if (number < 0 || number >= static_cast<int32_t>(job->ranks.size()) ||
        job->ranks[number].worker != event.id) {
      continue;
    }
    held.emplace(job->id, number);
    Touch(job->id).replayed[number] = rank.last_sequence;
    if (rank.alive) alive.emplace(job->id, number);
  }
  std::set<int32_t> slots;
  for (const WorkerDevice& device : event.devices) slots.insert(device.slot);

  for (const std::string& id : JobsOn(event.id)) {
    bool stop = false;
    std::vector<int32_t> never_started;
    for (int32_t i = 0; i < static_cast<int32_t>(Get(id).ranks.size()); ++i) {
      const RankRecord rank = Get(id).ranks[i];
      if (rank.worker != event.id || rank.gone()) continue;
      const bool stopping = !Get(id).stop_reason.empty();
      if (alive.contains({id, i})) {
        stop |= stopping;
      } else if (held.contains({id, i})) {
        // A full disk may have kept its last reports out of its log.
        const int64_t last = jobs_.at(id).replayed[i];
        if (last == 0 || jobs_.at(id).acked[i] < last) continue;
        LoseRank(id, i, ExitReason::kTrainerLost,
                 absl::StrCat("it has ended, and worker ", event.id,
                              " came back without the report of its end"));
      } else if (rank.state == RankState::kPrepared) {
        LoseRank(id, i, ExitReason::kTrainerLost,
                 absl::StrCat("worker ", event.id, " came back without this rank"));
      } else if (!stopping && !slots.contains(rank.slot)) {
        LoseRank(id, i, ExitReason::kSlotLost,
                 absl::StrCat("worker ", event.id, " came back without slot ", rank.slot));
      } else {
        never_started.push_back(i);
      }
    }
    if (stop) SendStopTo(Get(id), event.id);
    if (alive.contains({id, 0})) SendSaveTo(Get(id), event.id);
    // LoseRank above may already have told this worker to stop. Then they never start.
    if (!Get(id).stop_reason.empty()) {
      for (const int32_t rank : never_started) {
        LoseRank(id, rank, ExitReason::kStopped, "it was never started");
      }
    } else if (!never_started.empty()) {
      // Their reports count from 1, although ranks that the worker has lost may have reported.
      for (const int32_t rank : never_started) Touch(id).acked[rank] = 0;
      SendAssignTo(Get(id), event.id);
    }
    FinishIfGone(id);
  }
}

absl::Status Core::Handle(const WorkerHeartbeat& event) {
  RETURN_IF_ERROR(membership_.Check(event.id, event.session));
  if (!event.health.empty()) RETURN_IF_ERROR(TakeHealth(event));
  return membership_.Heartbeat(event.id, event.session, Now());
}

absl::Status Core::TakeHealth(const WorkerHeartbeat& event) {
  ASSIGN_OR_RETURN(std::vector<WorkerDevice> devices,
                   membership_.DevicesWith(event.id, event.health));
  if (devices == membership_.Find(event.id)->record.devices) return absl::OkStatus();
  ChangeWorker(event.id).SetDevices(event.id, std::move(devices));
  ShowFaults(event.id);
  PlaceQueued();
  return absl::OkStatus();
}

void Core::ShowFaults(const std::string& worker) {
  Reindex();
  const std::vector<std::string> jobs = JobsOn(worker);
  if (jobs.empty()) return;
  std::map<std::pair<std::string, int32_t>, std::string> faults;
  for (const auto& [id, known] : workers()) {
    for (const WorkerDevice& device : known.record.devices) {
      if (!device.fault.empty()) faults[{id, device.slot}] = device.fault;
    }
  }
  for (const std::string& id : jobs) {
    const JobRecord& job = Get(id);
    std::vector<std::string> faulty;
    for (size_t i = 0; i < job.ranks.size(); ++i) {
      const auto fault = faults.find({job.ranks[i].worker, job.ranks[i].slot});
      if (fault == faults.end() || job.ranks[i].gone()) continue;
      faulty.push_back(absl::StrCat("rank ", i, " on worker ", job.ranks[i].worker, ", slot ",
                                    job.ranks[i].slot, ": ", fault->second));
    }
    if (!faulty.empty()) {
      SetCondition(id, "DevicesHealthy", ConditionStatus::kFalse, "DeviceFaulty",
                   absl::StrJoin(faulty, "; "));
    } else if (job.FindCondition("DevicesHealthy") != nullptr) {
      SetCondition(id, "DevicesHealthy", ConditionStatus::kTrue, "Recovered", "");
    }
  }
}

absl::Status Core::Handle(const AssignmentRefused& event) {
  const JobRecord* job = FindJobByUid(event.job_uid);
  if (job == nullptr || job->epoch != event.epoch || IsEnded(job->state)) return absl::OkStatus();
  const std::string id = job->id;
  for (int32_t i = 0; i < static_cast<int32_t>(Get(id).ranks.size()); ++i) {
    const RankRecord rank = Get(id).ranks[i];
    if (rank.worker != event.worker || rank.state != RankState::kAssigned) continue;
    LoseRank(id, i, ExitReason::kSpecRefused, event.message);
  }
  FinishIfGone(id);
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Core::Handle(const WorkerDisconnected& event) {
  // An older session, or an unknown or LOST worker: nothing changes.
  if (!membership_.Check(event.id, event.session).ok()) return absl::OkStatus();
  ChangeWorker(event.id).Lose(event.id);
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Core::Handle(const Tick&) {
  RetireOldJobs();  // first, so that no job is retired in the event that ends it
  for (const std::string& id : membership_.Overdue(steady_)) {
    ChangeWorker(id).Lose(id);
    effects_.sends.push_back({id, membership_.Find(id)->session,
                              CloseSession{absl::UnavailableError(
                                  absl::StrCat("worker \"", id, "\" sent no heartbeat for ",
                                               absl::FormatDuration(options_.lease)))}});
  }
  FailHungJobs();
  GiveUpLostRanks();
  PlaceQueued();
  return absl::OkStatus();
}

void Core::SendTo(const std::string& worker, decltype(Send::message) message) {
  const Worker* found = membership_.Find(worker);
  if (found == nullptr || !found->ready()) return;
  effects_.sends.push_back({worker, found->session, std::move(message)});
}

void Core::SendAssignTo(const JobRecord& job, const std::string& worker) {
  SendAssign assign{.job_id = job.id,
                    .job_uid = job.uid,
                    .epoch = job.epoch,
                    .spec = job.spec,
                    .world_size = job.world_size(),
                    .ranks = {},
                    .create_time = job.create_time,
                    .attempt = job.attempt,
                    .saved_step = job.attempts.empty() ? 0 : job.attempts.back().from_step,
                    .layout = job.layout};
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    if (job.ranks[i].worker != worker || job.ranks[i].gone()) continue;
    assign.ranks.push_back({.rank = Rank::Of(i), .slot = job.ranks[i].slot});
  }
  SendTo(worker, std::move(assign));
}

}  // namespace stretto::coordinator
