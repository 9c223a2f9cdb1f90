// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's decisions as a pure state machine: Apply(event, now) -> effects. It uses no
// clock, threads, randomness or files, so the same events give the same effects, byte for byte.
//
//   PENDING -> PREPARING -> RUNNING -> SUCCEEDED | FAILED
//   CancelJob: PENDING -> CANCELLED; PREPARING, RUNNING -> CANCELLING -> CANCELLED
//
// Rules
// - A gang is placed whole (placement.h) and gets a new epoch. It is RUNNING once all ranks are
//   prepared.
// - The first rank that fails on its own becomes first_failure, and every worker of the gang is
//   told to stop. The job is FAILED when no rank is left. There is no automatic restart: attempt
//   stays 1.
// - The job is SUCCEEDED when all ranks have exited with code 0 and reason Completed.
// - The core waits lost_rank_timeout, from the end of the lease, for the ranks of a LOST worker.
//   Then they are lost and the job fails with reason WorkerLost. A worker that comes back in time
//   loses nothing.
// - If a worker comes back without a rank that was assigned to it, the rank is assigned again if it
//   was never prepared; otherwise it has failed with reason TrainerLost.
// - A slot with a fault takes no new rank. A rank that runs on one continues, and condition
//   DevicesHealthy of the job reports the fault; the rank itself finds out whether the fault is
//   fatal.
// - Reports are acknowledged in sequence. Sequence numbers are not stored: after a restart the core
//   asks all ranks to replay from 0, and a replay does not change what is already known. An ended
//   job never changes again.
//
// Not thread-safe. Movable. The driver (driver.h) is the only caller in the daemon.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/event.h"
#include "coordinator/core/records.h"
#include "coordinator/membership/membership.h"
#include "coordinator/placement/placement.h"

namespace stretto::coordinator {

struct CoreOptions {
  absl::Duration lease = absl::Seconds(10);  // without a heartbeat for this long a worker is LOST
  absl::Duration heartbeat_interval = absl::Seconds(2);
  // Longer than a trainer's own lease on its daemon (15 s), so that a rank has ended before it is
  // counted as lost.
  absl::Duration lost_rank_timeout = absl::Seconds(20);
  absl::Duration stop_grace = absl::Seconds(10);  // between SIGTERM and SIGKILL
};

class Core {
 public:
  explicit Core(CoreOptions options = {});

  // Returns the state after a restart at `now`: jobs are as stored, and workers are LOST since
  // `now`. Errors: DataLoss (records contradict each other: two jobs with one uid, a slot taken
  // twice, a job ahead of the stored epoch).
  static absl::StatusOr<Core> Restore(Snapshot snapshot, CoreOptions options, absl::Time now);

  // `now` should not decrease, because leases are measured with it; if it does, the latest `now`
  // seen counts.
  Effects Apply(const Event& event, absl::Time now);

  // Reverts the last Apply and every AttachSummary since. Called when its effects could not be
  // stored.
  void Undo();

  // Sets the summary of a job that ended in the last Apply. Returns the record to store.
  const JobRecord& AttachSummary(const std::string& job_id, std::string summary);

  const CoreOptions& options() const { return options_; }

  // Views. Pointers are valid until the next Apply, Undo or AttachSummary; null means that there is
  // no such object.
  const JobRecord* FindJob(const std::string& id) const;
  const JobRecord* FindJobByUid(const std::string& uid) const;
  std::vector<const JobRecord*> Jobs() const;  // oldest first
  // Returns Ok if (uid, epoch) is an attempt that may exchange rendezvous keys now. Errors:
  // NotFound, Aborted (stale epoch, or the job has ended).
  absl::Status CheckAttempt(const std::string& uid, Epoch epoch) const;
  const Worker* FindWorker(const std::string& id) const;
  const std::map<std::string, Worker>& workers() const { return membership_.workers(); }
  int32_t FreeSlots(const std::string& worker_id) const;  // 0 while the worker is LOST
  std::vector<std::string> JobsOn(const std::string& worker_id) const;  // ids, sorted
  // Returns where the job would be placed if it were created now, behind the jobs that wait, or why
  // it would wait. The result has one entry in all.
  Placement PlaceNow(const QueuedJob& job) const;
  Epoch last_epoch() const { return epoch_.last; }

 private:
  struct Job {
    JobRecord record;
    std::vector<int64_t> acked;  // by rank; not stored
  };
  // The old values of everything touched since the last Apply began; nullopt if it did not exist.
  // Epochs and job numbers are not reverted: a gap is harmless, a number used twice is not.
  struct UndoLog {
    std::map<std::string, std::optional<Job>> jobs;
    std::optional<Membership> membership;
  };

  absl::Status Handle(const CreateJob& event);
  absl::Status Handle(const CancelJob& event);
  absl::Status Handle(const WorkerRegistered& event);
  absl::Status Handle(const WorkerHeartbeat& event);
  absl::Status Handle(const WorkerDisconnected& event);
  absl::Status Handle(const RankReported& event);
  absl::Status Handle(const Tick& event);

  // reports.cc
  absl::Status CheckReport(const RankReported& event) const;
  void On(const std::string& id, int32_t rank, const OtherReport& report);
  void On(const std::string& id, int32_t rank, const RankPrepared& report);
  void On(const std::string& id, int32_t rank, const FirstOperationDone& report);
  void On(const std::string& id, int32_t rank, const StepDone& report);
  void On(const std::string& id, int32_t rank, const CheckpointDone& report);
  void On(const std::string& id, int32_t rank, const RankExited& report);
  void On(const std::string& id, int32_t rank, const RankWarned& report);

  // lifecycle.cc
  void PlaceQueued();
  void Start(const Placed& placed);
  void LoseRank(const std::string& id, int32_t rank, ExitReason reason, const std::string& message);
  void Fail(const std::string& id, FirstFailure failure);
  void Stop(const std::string& id, const std::string& reason);
  void SendStopTo(const JobRecord& job, const std::string& worker);
  // `message`: that of the rank that ended last.
  void FinishIfGone(const std::string& id, const std::string& message = "");
  void End(const std::string& id, JobState state, const std::string& reason,
           const std::string& message);
  // Changes nothing if the condition already has these values.
  void SetCondition(const std::string& id, const std::string& type, ConditionStatus status,
                    const std::string& reason, const std::string& message);

  // sessions.cc
  std::vector<HeldRankReply> ReplyToHeld(const WorkerRegistered& event) const;
  void RecoverRanks(const WorkerRegistered& event);
  absl::Status TakeHealth(const WorkerHeartbeat& event);
  // Sets condition DevicesHealthy of the jobs on this worker: its faulty devices, or their
  // recovery.
  void ShowFaults(const std::string& worker);
  void SendAssignTo(const JobRecord& job, const std::string& worker);
  // Sends to the worker's open session, if there is one.
  void SendTo(const std::string& worker, decltype(Send::message) message);

  std::vector<QueuedJob> Queue() const;  // jobs that wait, oldest first
  std::vector<WorkerView> ClusterView() const;
  // Write access that Undo can revert. Change also marks the job for the store and for watchers;
  // Touch does not.
  Job& Touch(const std::string& id);
  JobRecord& Change(const std::string& id);
  Membership& ChangeMembership();
  const JobRecord& Get(const std::string& id) const { return jobs_.at(id).record; }
  void Insert(Job job);
  void CollectRecords(Epoch epoch_before);

  CoreOptions options_;
  Membership membership_;
  EpochRecord epoch_;
  int64_t last_number_ = 0;
  std::map<std::string, Job> jobs_;  // by id
  std::map<std::string, std::string> id_by_uid_;
  std::map<std::string, std::string> id_by_request_;
  std::map<int64_t, std::string> id_by_number_;
  std::map<int64_t, std::string> live_;  // jobs that have not ended, by number

  // Of the Apply in progress, else of the last one.
  absl::Time now_ = absl::InfinitePast();
  UndoLog undo_;
  std::set<std::string> changed_jobs_;
  std::set<std::string> changed_workers_;
  Effects effects_;
};

}  // namespace stretto::coordinator
