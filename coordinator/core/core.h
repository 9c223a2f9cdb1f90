// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's decisions as a pure state machine: Apply(event, now) -> effects. It uses no
// clock, threads, randomness or files, so the same events give the same effects, byte for byte.
// Times of records are of the wall clock; leases and timeouts are measured on the steady clock, so
// neither a jump of the wall clock nor a pause of the coordinator ends one (moment.h).
//
//   PENDING -> PREPARING -> RUNNING -> SUCCEEDED | FAILED
//   A failure that the job's policy covers, or a preemption: PREPARING, RUNNING -> PENDING
//   CancelJob: PENDING, SUSPENDED -> CANCELLED; PREPARING, RUNNING -> CANCELLING -> CANCELLED
//   SuspendJob: PENDING -> SUSPENDED; PREPARING, RUNNING -> SUSPENDING -> SUSPENDED
//   ResumeJob: SUSPENDED, FAILED, CANCELLED -> PENDING, unless it is retired
//   CheckpointJob: RUNNING stays RUNNING
//
// Rules
// - A gang is placed whole (placement.h) and gets a new epoch. It is RUNNING once all ranks are
//   prepared. queue.cc has the order of the queue, quotas and preemption.
// - The first rank that fails on its own becomes first_failure, and every worker of the gang is
//   told to stop. When no rank is left, the attempt has ended. If the job's policy covers the
//   failure (restart.h), the job is PENDING again, and its next attempt is placed after a delay;
//   otherwise it is FAILED. So two attempts of a job never hold slots at one time.
// - The job is SUCCEEDED when all ranks have exited with code 0 and reason Completed.
// - The ranks of a LOST worker are given up lost_rank_timeout after its lease has ended, if the
//   attempt cannot continue in any case or if its next attempt can start on other workers and it
//   makes no steps any more, and else lost_run_timeout after it, as for an attempt without
//   checkpoints of which no rank is in contact. Then the attempt fails with reason
//   WorkerLost, never in the event that ends the lease. A worker that comes back in time loses
//   nothing (lost_workers.cc).
// - A rank that does not move while others wait for it, or by itself, fails with reason Hang
//   (hang.h). Positions of ranks are compared only while all workers of the job are READY.
// - A worker of another cluster, or one that knows a newer epoch than this state, is refused before
//   anything else: its runs are not known here, and must not be ended for that.
// - If a worker comes back without a rank that was assigned to it, the rank is assigned again if it
//   was never prepared; otherwise it has failed with reason TrainerLost.
// - A rank that needs longer than the ranks of its stage makes them wait: condition
//   RanksBalanced names it (straggler.h). Steps that a rank reports again, or late, do not count.
// - A slot with a fault takes no new rank. A rank that runs on one continues, and condition
//   DevicesHealthy of the job reports the fault; the rank itself finds out whether the fault is
//   fatal.
// - Reports are acknowledged in sequence. Sequence numbers are not stored: after a restart the core
//   asks all ranks to replay from 0, and a replay does not change what is already known. An ended
//   job changes only by ResumeJob, and reports of an attempt that has ended are refused.
// - A cordoned worker takes no new rank. The core cordons a worker itself when its machine was to
//   blame for several failures.
//
// Not thread-safe. Movable. The driver (driver.h) is the only caller in the daemon.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/event.h"
#include "coordinator/core/hang.h"
#include "coordinator/core/job_filter.h"
#include "coordinator/core/job_index.h"
#include "coordinator/core/quota.h"
#include "coordinator/core/records.h"
#include "coordinator/core/retired_jobs.h"
#include "coordinator/core/straggler.h"
#include "coordinator/membership/membership.h"
#include "coordinator/placement/placement.h"
#include "proto/base/limits.h"

namespace stretto::coordinator {

struct CoreOptions {
  absl::Duration lease = absl::Seconds(10);  // without a heartbeat for this long a worker is LOST
  absl::Duration heartbeat_interval = absl::Seconds(2);
  // How long to wait for the ranks of a LOST worker after its lease, and after the time at which
  // the next step of their run was due.
  absl::Duration lost_rank_timeout = absl::Seconds(5);
  // How long a run that nobody could continue elsewhere may be out of contact.
  absl::Duration lost_run_timeout = absl::Minutes(5);
  absl::Duration stop_grace = absl::Seconds(10);  // between SIGTERM and SIGKILL
  HangLimits hang;
  // The same where a checkpoint is asked for first.
  absl::Duration checkpoint_grace = absl::Minutes(2);
  // Between two ticks more time than this passes only if the coordinator itself stands still
  // (steady_clock.h). About twice the interval of ticks.
  absl::Duration longest_round = absl::Seconds(1);
  Quotas quotas;
  int64_t most_waiting = limits::kWaitingJobs.value;  // jobs of all projects that are PENDING
  int64_t most_waiting_bytes = limits::kWaitingSpecBytes.value;  // of their specs
  // Ended jobs are retired, the one that ended first first, when there are more than this, or when
  // they ended longer ago than this by the wall clock.
  int64_t keep_jobs = INT64_MAX;
  absl::Duration keep_jobs_for = absl::InfiniteDuration();
  // Of more retired jobs than this, those that were created first are deleted.
  int64_t keep_retired = INT64_MAX;
};

class Core {
 public:
  explicit Core(CoreOptions options = {});

  // Returns the state after a restart, at which the steady clock begins at 0: jobs are as stored,
  // and workers are LOST, with a whole lease in which to come back. `now` is of the wall clock:
  // what is left of a delay before the next attempt is known by it alone. Errors: DataLoss (records
  // contradict each other: two jobs with one uid, a slot taken twice, a job ahead of the stored
  // epoch).
  static absl::StatusOr<Core> Restore(Snapshot snapshot, CoreOptions options, absl::Time now);

  Effects Apply(const Event& event, Moment now);

  // Reverts the last Apply and every AttachSummary since. Called when its effects could not be
  // stored.
  void Undo();

  // A registration was reverted: its worker is there all the same, and its lease begins anew.
  void NoteContact(const std::string& worker, absl::Duration steady);

  // Sets the summary of a job that the last Apply lists in Effects::summaries. Returns the record
  // to store.
  const JobRecord& AttachSummary(const std::string& job_id, std::string summary);

  const CoreOptions& options() const { return options_; }

  // Views. Pointers are valid until the next Apply, Undo or AttachSummary; null means that there is
  // no such object.
  const JobRecord* FindJob(const std::string& id) const;  // may be retired
  // This and the next two know no retired jobs.
  const JobRecord* FindJobByUid(const std::string& uid) const;
  std::vector<const JobRecord*> Jobs() const;  // oldest first
  // Up to `count` of the jobs that were created before the job with this number, newest first:
  // those that are `wanted`, or all.
  std::vector<const JobRecord*> JobsBefore(
      int64_t number, int32_t count,
      const std::function<bool(const JobRecord&)>& wanted = nullptr) const;
  // The same of retired jobs.
  std::vector<const JobRecord*> RetiredBefore(
      int64_t number, int32_t count,
      const std::function<bool(const JobRecord&)>& wanted = nullptr) const;
  const RetiredJobs& retired() const { return retired_; }
  // Returns Ok if (uid, epoch) is an attempt that may exchange rendezvous keys now, and this worker
  // has ranks of it; an empty `worker` is any. Errors: NotFound, PermissionDenied (it has none),
  // Aborted (stale epoch, or the job has ended).
  absl::Status CheckAttempt(const std::string& uid, Epoch epoch,
                            const std::string& worker = "") const;
  const Worker* FindWorker(const std::string& id) const;
  const std::map<std::string, Worker>& workers() const { return membership_.workers(); }
  int32_t FreeSlots(const std::string& worker_id) const;  // 0 while it is LOST or cordoned
  std::vector<std::string> JobsOn(const std::string& worker_id) const;  // ids, sorted
  const JobIndex& index() const { return index_; }
  // The job as it would start now, in the layout that it would use.
  QueuedJob Queued(const JobRecord& job) const;
  // Whether a job needs more devices than its project may have at all, as after a restart with a
  // smaller quota.
  bool ExceedsQuota(const JobRecord& job) const;
  // Whether the project of a job that waits has no devices left for it, beside those that its jobs
  // hold and the `claimed` ones.
  bool IsOverQuota(const JobRecord& job, int64_t claimed = 0) const;
  // The devices of its project that a job that waits keeps from later jobs of it: those of the
  // largest layout in which it may start.
  int64_t ClaimOf(const JobRecord& job) const;
  // Whether a job waited for the time of its next attempt, not for slots, when the core last looked
  // for jobs to place.
  bool BacksOff(const JobRecord& job) const;
  std::vector<WorkerView> ClusterView() const;
  // The cluster as it is. Valid until the next Apply or Undo. It is kept, and follows the use of
  // slots, until a worker changes: so most events and questions do not look at every worker.
  const Placer& Slots() const;
  const JobRecord& JobOf(int64_t number) const { return Get(id_by_number_.at(number)); }
  // Ids of the jobs that end to make room for this one.
  std::vector<std::string> PreemptedFor(const JobRecord& job) const;
  // Returns where a job would be placed if it were created now, or why it would wait. The result
  // has one entry in all. Reads id, gang, kind, priority and project of `job`.
  Placement PlaceNow(const JobRecord& job) const;
  // Returns Ok if the job would be accepted. Errors: those of CheckQuota of quota.h, and
  // ResourceExhausted (most_waiting jobs wait, or with this one their serialised specs would have
  // more than most_waiting_bytes).
  absl::Status CheckQuota(const std::string& project, int32_t ranks, const std::string& spec) const;
  // How the ranks of the job's attempt compare; null until one has reported a step.
  const StragglerWatch* FindStragglers(const std::string& job_id) const;
  Epoch last_epoch() const { return epoch_.last; }

  class Line;  // line.h

 private:
  struct Job {
    JobRecord record;
    std::vector<int64_t> acked;  // by rank; not stored
    // By rank: the newest report that its worker had when it registered. Not stored.
    std::vector<int64_t> replayed = {};
    std::map<int32_t, RankPosition> positions = {};  // of ranks that do not move; not stored
    // When its next attempt may start, on the steady clock. Not stored (Restore).
    absl::Duration next_attempt = {};
    // When the attempt's next step should end, on the steady clock; 0: none has been reported to
    // this coordinator. Not stored.
    absl::Duration step_due = {};
  };
  // The old values of everything touched since the last Apply began; nullopt if it did not exist.
  // Epochs and job numbers are not reverted: a gap is harmless, a number used twice is not.
  struct UndoLog {
    std::map<std::string, std::optional<Job>> jobs;
    std::map<std::string, std::optional<JobRecord>> retired;
    std::map<std::string, std::optional<Worker>> workers;
    absl::Duration last_placing;
  };

  absl::Status Handle(const CreateJob& event);
  absl::Status Handle(const CancelJob& event);
  absl::Status Handle(const CheckpointJob& event);
  absl::Status Handle(const SuspendJob& event);
  absl::Status Handle(const ResumeJob& event);
  absl::Status Handle(const CordonWorker& event);
  absl::Status Handle(const UncordonWorker& event);
  absl::Status Handle(const DeleteJob& event);
  absl::Status Handle(const ForgetWorker& event);
  absl::Status Handle(const WorkerRegistered& event);
  absl::Status Handle(const WorkerHeartbeat& event);
  absl::Status Handle(const AssignmentRefused& event);
  absl::Status Handle(const WorkerDisconnected& event);
  absl::Status Handle(const RankReported& event);
  absl::Status Handle(const RankPositions& event);
  absl::Status Handle(const Tick& event);

  // reports.cc
  // The time of the event that a rank reports, by its node's clock if that can be right: not before
  // its attempt nor after now. Otherwise the clocks differ and it has just happened, or, in a
  // report that is repeated, nobody knows when.
  std::optional<absl::Time> TimeOf(const std::string& id, int32_t rank, absl::Time reported) const;
  absl::Status CheckReport(const RankReported& event) const;
  void On(const std::string& id, int32_t rank, const OtherReport& report);
  void On(const std::string& id, int32_t rank, const RankPrepared& report);
  void On(const std::string& id, int32_t rank, const FirstOperationDone& report);
  void On(const std::string& id, int32_t rank, const StepDone& report);
  void On(const std::string& id, int32_t rank, const CheckpointDone& report);
  void On(const std::string& id, int32_t rank, const RankExited& report);
  void On(const std::string& id, int32_t rank, const RankWarned& report);
  // Both are called for a step that has just ended.
  void NoteMove(const std::string& id, const StepDone& report);
  void Compare(const std::string& id, int32_t rank, const StepDone& report);
  // Sets condition RanksBalanced.
  void ShowStragglers(const std::string& id, const StragglerWatch& watch);

  // positions.cc
  void ForgetPositions(const std::string& worker);
  void FailHungJobs();
  void FailIfHung(const std::string& id);

  // queue.cc
  // Jobs behind the first in line that are tried, so that the work of an event has a bound.
  static constexpr int kTriedBehindFirst = 256;
  void PlaceQueued();
  struct Pass;
  // Places or reserves for the job whose turn it is.
  void PlaceNext(const JobRecord& record, Pass* pass);
  // Also for its other layouts, of which it may use one when workers are lost.
  void Reserve(const JobRecord& job, Placer* placer) const;
  // Passes the jobs before `end`, and reserves what they could use. Returns false, perhaps early,
  // if nothing is left for those behind; with `if_full` it looks at reservations alone and not at
  // what is free.
  bool ReserveAhead(const QueueKey& end, bool if_full, Line* line, Placer* placer) const;
  std::vector<RankSlot> TryPlacing(const JobRecord& job) const;
  bool IsInContact(const JobRecord& job) const;  // every rank's worker is READY
  std::vector<int64_t> VictimsFor(const QueuedJob& job, int32_t priority,
                                  const Placer& placer) const;
  void Preempt(int64_t number, const std::string& why, const std::string& by);
  // Ends the attempt of a job that has made room, and lets it wait.
  void Requeue(const std::string& id);

  // lifecycle.cc
  void Start(const Placed& placed);
  void LoseRank(const std::string& id, int32_t rank, ExitReason reason, const std::string& message);
  void Fail(const std::string& id, FirstFailure failure);
  void Stop(const std::string& id, const std::string& reason, bool checkpoint = false);
  void SendStopTo(const JobRecord& job, const std::string& worker);
  // `message`: that of the rank that ended last.
  void FinishIfGone(const std::string& id, const std::string& message = "");
  void End(const std::string& id, JobState state, const std::string& reason,
           const std::string& message);
  // Changes nothing if the condition already has these values.
  void SetCondition(const std::string& id, const std::string& type, ConditionStatus status,
                    const std::string& reason, const std::string& message);

  // attempts.cc
  void BeginAttempt(const std::string& id);
  void EndAttempt(const std::string& id, RestartCause cause);
  // Ends the attempt whose last rank is gone after a failure, and lets the job wait for the next
  // one if its policy allows that. Returns whether it does.
  bool RestartFailed(const std::string& id);
  // Frees the job of what its attempt left behind.
  void Release(const std::string& id, JobState state);
  void Suspend(const std::string& id);
  // No next attempt is coming: condition Restarting becomes FALSE if it is TRUE.
  void CloseRestarting(const std::string& id, const std::string& reason);

  // checkpoint_request.cc
  bool HasOpenRequest(const JobRecord& job) const;
  void SendSaveTo(const JobRecord& job, const std::string& worker);
  // Closes the request that a checkpoint report answers, if it is open.
  void AnswerRequest(const std::string& id, const CheckpointDone& report);
  // The attempt has ended, and nobody will answer any more.
  void CloseRequest(const std::string& id);

  // layouts.cc
  // The layout in which the job is to be placed next, as JobRecord::layout: before its first
  // attempt its own, then the first that fits on the workers in contact if they were empty, or its
  // own if none does.
  int32_t LayoutFor(const JobRecord& job) const;
  // Sets condition LayoutsFit: whether the cluster, lost workers included, has room for every
  // layout.
  void ShowLayouts(const std::string& id);

  // lost_workers.cc
  // Whether the worker is LOST, and its lease ended that long ago.
  bool HasBeenLostFor(const std::string& id, absl::Duration time) const;
  // The workers of its ranks whose leases ended lost_rank_timeout ago.
  std::set<std::string> LostWorkersOf(const JobRecord& job) const;
  // Whether a step of the attempt, which needs all its ranks, has ended that recently.
  bool MakesSteps(const JobRecord& job) const;
  // Whether the attempt may train on beside a next one: it has no checkpoints whose folder a newer
  // attempt could fence, none of its ranks has exited, and none is in contact, which a stop would
  // reach and with it all of them.
  bool TrainsOnUnfenced(const JobRecord& job) const;
  void GiveUpLostRanks();
  // Of these workers, whose patience has ended; with those lost `for_good`, that with the run has.
  void GiveUp(const std::string& id, const std::set<std::string>& workers,
              const std::set<std::string>& for_good);
  class Moves;
  // Sets condition WorkersReachable of the jobs on a worker that has registered.
  void ShowReturn(const std::string& worker);

  // workers.cc
  void Blame(const std::string& worker, const FirstFailure& failure);
  void Drain(const std::string& worker);

  // sessions.cc
  absl::Status CheckCluster(const WorkerRegistered& event) const;
  std::vector<HeldRankReply> ReplyToHeld(const WorkerRegistered& event) const;
  void RecoverRanks(const WorkerRegistered& event);
  absl::Status TakeHealth(const WorkerHeartbeat& event);
  // Sets condition DevicesHealthy of the jobs on this worker: its faulty devices, or their
  // recovery.
  void ShowFaults(const std::string& worker);
  void SendAssignTo(const JobRecord& job, const std::string& worker);
  // Sends to the worker's open session, if there is one.
  void SendTo(const std::string& worker, decltype(Send::message) message);

  // Brings the index up to date with the changes of the event in progress.
  void Reindex();
  // Write access that Undo can revert. Change also marks the job for the store and for watchers;
  // Touch does not. ChangeWorker does the same for a worker, which may be new.
  Job& Touch(const std::string& id);
  JobRecord& Change(const std::string& id);
  Membership& ChangeWorker(const std::string& id);
  Moment Now() const { return {.wall = now_, .steady = steady_}; }
  const JobRecord& Get(const std::string& id) const { return jobs_.at(id).record; }
  void Insert(Job job);
  // Takes an ended job from the jobs that are known.
  void Remove(const std::string& id);

  // retired_jobs.cc
  void RetireOldJobs();
  void Retire(const std::string& id);
  void Erase(const std::string& id);  // it may be retired

  void CollectRecords(const Event& event, Epoch epoch_before);

  CoreOptions options_;
  Membership membership_;
  EpochRecord epoch_;
  std::string cluster_id_;
  int64_t last_number_ = 0;
  std::map<std::string, Job> jobs_;  // by id
  RetiredJobs retired_;              // none of them is in jobs_, nor in the maps below
  std::map<std::string, std::string> id_by_uid_;
  std::map<std::string, std::string> id_by_request_;
  std::map<int64_t, std::string> id_by_number_;
  std::map<int64_t, std::string> live_;  // jobs that have not ended, by number
  JobIndex index_;
  int64_t worker_changes_ = 0;  // counts changes of the membership, heartbeats excepted
  // Slots(), and the worker_changes_ that it contains.
  mutable std::optional<std::pair<Placer, int64_t>> slots_;
  // Numbers of the jobs that may have positions.
  std::set<int64_t> still_;
  // By job id, of attempts that train. Undo keeps what it has added: a step that is reported again
  // counts twice then, which medians bear.
  std::map<std::string, StragglerWatch> stragglers_;

  // Of the Apply in progress, else of the last one.
  absl::Time now_ = absl::InfinitePast();  // for records
  absl::Duration steady_;                  // for leases and timeouts
  absl::Duration last_placing_;            // steady time up to which jobs that wait were looked at
  bool queue_changed_ = true;              // since jobs that wait were last looked at
  absl::Duration next_due_ = absl::InfiniteDuration();  // of those that were passed by meanwhile
  UndoLog undo_;
  std::set<std::string> changed_jobs_;
  std::set<std::string> changed_workers_;
  Effects effects_;
};

}  // namespace stretto::coordinator
