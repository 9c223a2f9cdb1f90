// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole cluster in one thread: the real core, driver and store, and on each node what the daemon
// decides about its trainers (worker/daemon/trainers) and about its session and reports
// (worker/daemon/session), with processes, run folders and logs small enough to be obviously right.
// A seed decides everything.
//
// A session is a stream each way, as gRPC has it: messages are late, never out of order, and lost
// with their connection. Those of different workers overtake each other. What was lost is sent
// again in the next session, if the daemon does what it should.
//
// Time passes in rounds, as the coordinator's ticks divide it, on a monotonic and on a wall clock.
//
// Faults: sessions break (seen by both sides, or by the worker alone), daemons restart with and
// without their trainers or are asked to end, trainers are killed, cannot be started, ignore a
// signal or do not exit after their last report, streams of trainers break, the disk with the
// report logs is full for a while, GPUs fail and recover, ranks of an older epoch report and are
// held, a worker comes to the coordinator of another cluster and a stranger to this one, the
// coordinator restarts, the store refuses a commit or loses its response. People suspend and resume
// jobs, ask running ones for a checkpoint, cordon and drain workers. Jobs have priorities, and some
// clusters quotas. A node is cut off for a while, and trains on. The control plane alone has faults
// too: the coordinator stands still while its cluster continues, and then everything arrives at
// once; a commit takes long; the disk is full for a while; the wall clock jumps.
//
// Some simulations keep few ended jobs. Jobs are deleted, and workers are forgotten.
//
// Checked after every event (a broken invariant throws std::logic_error naming it):
//   no slot is held by two jobs, in the core and on the nodes     a gang is whole or absent
//   an epoch belongs to one job and never goes back               an ended job never changes again
//   what is sent has been stored                                  the store equals the core
//   the first job that can run on a kind of slot starts once      who overtakes a job takes no slot
//   enough of them are free                                       that it could use
//   no job starts on a faulty slot                                no project exceeds its quota
//   a victim has lower priority, and is asked for a checkpoint    no more victims than needed
//   a worker is LOST when it was silent for a lease while the coordinator listened and could store,
//   and soon after that; never along with its ranks, nor without such a silence
//   a rank has prepared, trained and exited when its trainer of the job's epoch said so
//   an attempt starts when every rank of the one before has exited, or was given up for a reason
//   a job has no more attempts than its policy allows             none starts on a cordoned worker
//   a worker in contact runs ranks of the newest attempts alone   a run that nobody could continue
//   elsewhere, or that makes steps, is given up only after the time that a cut may take
//   nor does an attempt start before then beside one that saves nothing and trains on
//   a later layout is used only if no earlier one fits on the workers that remain
//   what was acknowledged is in the store after every restart, and nothing that was never committed
//   every accepted job ends or says why it waits; on healthy nodes its first attempt succeeds
// and on each node:
//   no slot has two processes, those that are being stopped among them
//   no two epochs of a job have processes          each process is in the table of its daemon
//   a trainer has its whole grace and no more      an epoch that was stopped here never starts
//   an assignment waits only for somebody          a gang that lost a rank is stopped, and
//                                                  nobody joins it
// and of each session:
//   no report leaves a gap                         each report is counted once, in order
//   no report of an older epoch is accepted        no heartbeat waits behind reports
//   a report is sent as its rank wrote it          an exit leaves when the process is gone
//   a rank is done when all its reports have been counted
//   each cluster refuses the workers of the other, and accepts its own
// (A full disk may lose reports with the process that has them in memory. Such ranks end too.)

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/core/driver.h"
#include "coordinator/store/job_store.h"
#include "tests/simcluster/torn_disk.h"
#include "worker/daemon/session/reconnect.h"
#include "worker/daemon/session/registration.h"
#include "worker/daemon/session/report_table.h"
#include "worker/daemon/session/send_order.h"
#include "worker/daemon/trainers/trainer_table.h"

namespace stretto::coordinator::testing {

// How often something was seen, over any number of runs.
using Probes = std::map<std::string, int64_t>;

struct SimOptions {
  // Only the control plane has faults. Then every job must succeed in its first attempt.
  bool healthy_nodes = false;
  // Of the store, a database on a disk that loses and tears writes when the coordinator dies.
  // Empty: the store is in memory.
  std::string folder;
  // Some jobs are long, and who wants a checkpoint waits until a job runs. Without that a seed does
  // what it did before there was this option.
  bool patient = true;
};

class ClusterSim final : public Transport, public Persistence {
 public:
  ClusterSim(uint64_t seed, Probes& probes, const SimOptions& options = {});

  // One random event.
  void Step();
  // No more faults: every job must end.
  void RunToEnd();

 private:
  using RankKey = daemon::RankKey;
  using Report = daemon::ReportTable::Report;
  static constexpr int64_t kLongJob = 12;  // steps
  static constexpr absl::Duration kGrace =
      absl::Seconds(10);  // --stop-grace; also after a last report
  // So small that logs are read.
  static constexpr daemon::ReportMemory kMemory = {.recent = 2, .most = 4096};
  // A rank with its process and its run folder.
  struct Trainer {
    std::string job_id;
    int32_t slot = 0;
    bool alive = true;        // the process
    bool ended = false;       // and its daemon has seen that it is not
    bool stopping = false;    // the folder's note that the daemon ends it
    bool terminated = false;  // it has got a request or a signal to end
    bool deaf = false;        // which it ignores
    bool exits = false;       // it has reported its exit
    bool done = false;        // the folder's note that the coordinator wants no more reports
    absl::Duration until = absl::InfiniteDuration();  // nobody may kill it before
    int64_t save = 0, answered = 0;                   // numbers of requests for a checkpoint
    int32_t facts = 0;                                // reports, but for warnings
    bool warned = false;
    std::vector<Report> log;          // on the disk of the node
    std::vector<Report> unwritten;    // in the process, because the disk is full
    int64_t arrived = 0, resent = 0;  // numbers up to which the daemon's two readers have read
    int64_t logged() const { return log.empty() ? 0 : log.back().sequence(); }
  };
  // What a rank said in an epoch, as far as it has reached the coordinator.
  struct Heard {
    bool prepared = false, exited = false;
    int64_t last_step = 0;
  };
  // The newest attempt of a job as of the last check.
  struct Seen {
    Epoch epoch;
    std::vector<std::string> workers;  // by rank
    bool ended = false;                // so is the job
    bool for_good = false;             // one of them was silent for the time that a cut may take
  };
  struct Node {
    std::string id;
    int32_t slots = 1;  // cores
    int32_t gpus = 0;   // slots after them
    std::set<int32_t> faulty;
    int64_t incarnation = 1;
    bool cut = false;           // off: no connection can be made
    absl::Duration full_until;  // its disk
    int64_t session = 0;        // 0: not connected
    bool registered = false;    // the answer has arrived
    absl::Duration next_beat;   // a heartbeat is due, if registered
    absl::Duration retry_at;    // if not connected
    // While the coordinator listened and could store: since it last heard of this node.
    absl::Duration silent;
    std::deque<Event> up;  // in order; dropped with the session
    std::deque<Send> down;
    std::map<RankKey, Trainer> trainers;
    // Of the daemon.
    daemon::TrainerTable table;
    daemon::ReportTable reports{[](const Report&) {}, kMemory};
    daemon::SendOrder order{absl::ZeroDuration()};
    daemon::Reconnect reconnect{/*seed=*/0, /*addresses=*/1};
    daemon::Membership membership;            // also on the disk
    std::vector<v1alpha1::HeldRank> offered;  // in the last registration
    std::set<RankKey> catch_up;               // their logs are read with the next look
    std::map<std::string, int64_t> stopped;   // by uid: the newest epoch that this daemon stopped
    std::set<std::pair<std::string, int64_t>> broken;  // gangs that lost a rank under this daemon
    std::optional<absl::Duration> closes_at;           // its daemon is ending
  };

  // Transport and Persistence. Called by the driver.
  absl::Status Commit(const std::vector<Record>& records) override;
  void SendToWorker(const Send& send) override;
  void JobChanged(const JobRecord& job) override;
  void JobDeleted(const ErasedJob& job) override;
  void WorkerChanged(const Worker&) override {}
  std::string FinalSummary(const JobRecord& job) override { return "summary of " + job.id; }

  uint64_t Pick(uint64_t n) { return random_() % n; }
  Node& PickNode() { return nodes_[Pick(nodes_.size())]; }
  void StepAny();
  void StepHealthy();
  void Serve(Node& node);
  Result Submit(const Event& event);
  // stored.cc
  void OpenStore();
  void RestartCoordinator();
  void FailStore();
  void NoteCommit(const std::vector<Record>& records, bool stored);
  // Whether the event was right, and the store refused what it changes.
  static bool IsOfStore(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  }
  void SubmitJob();
  std::string SomeJob();
  void ChangeSomeJob();
  void AskForCheckpoint();
  void CordonOrNot(Node& node);
  void UncordonAll();
  void DeleteSomeJob();
  // sessions.cc
  void Connect(Node& node);
  WorkerRegistered Registration(Node& node);
  void ComeToAnotherCluster(Node& node);
  void KnockAsAStranger(const Node& node);
  void Break(Node& node, bool seen_by_coordinator,
             const absl::Status& why = absl::UnavailableError("the connection broke"));
  void Retry(Node& node, const absl::Status& status, bool registered);
  void Write(Node& node);
  void DeliverUp(Node& node);
  void DeliverReport(Node& node, const RankReported& report);
  void Arrive(Node& node);
  void DeliverDown(Node& node);
  void Receive(Node& node, const SendRegistered& message);
  void Receive(Node& node, const SendAssign& message);
  void Receive(Node& node, const SendStop& message);
  void Receive(Node& node, const SendSave& message);
  void Receive(Node& node, const SendAck& message);
  void Receive(Node& node, const CloseSession& message);
  void TakeAck(Node& node, const RankKey& key, int64_t sequence);
  static void Done(Node& node, const RankKey& key);
  // reports.cc
  bool DiskFull(const Node& node) const { return monotonic_ < node.full_until; }
  void Tell(Node& node, const RankKey& key, Report report);
  void Append(Node& node, const RankKey& key, Report report);
  static void AddRank(Node& node, const RankKey& key);
  static void CatchUp(Node& node, const RankKey& key);
  std::optional<Report> NextReport(Node& node);
  static RankReported EventOf(const Report& report);
  void CheckSent(const Node& node, const Report& report);
  void Hear(const RankReported& report);
  void Count(const RankKey& key, const RankReported& report, bool fresh);
  void ForgetReports(const RankKey& key);
  // daemons.cc
  void RestartDaemon(Node& node);
  void TerminateDaemon(Node& node);
  void Adopt(Node& node);
  bool AdoptRun(Node& node, const RankKey& key);
  void Look(Node& node);
  void Kill(Trainer& trainer) const;
  bool End(Node& node, const RankKey& key, bool stopped);
  void HandleEnd(Node& node, const RankKey& key);
  void EndProcess(Node& node, const RankKey& key);
  void CarryOut(Node& node, const daemon::TrainerTable::Effects& effects, absl::Duration grace,
                bool ask);
  void StartFree(Node& node);
  void StartRanks(Node& node, const daemon::Assignment& assign);
  Trainer& CreateRank(Node& node, const RankKey& key, const std::string& job_id, int32_t slot);
  void WarnOfLog(Node& node, const RankKey& key);
  void ReportUnstarted(Node& node, const RankKey& key, const v1alpha1::Assign& assign, int32_t slot,
                       const std::string& reason);
  void CheckNode(const Node& node) const;
  void ShowUpFromOlderEpoch(Node& node);
  void Train(Node& node, bool may_fail);
  void TrainOne(Node& node, const RankKey& key, bool may_fail);
  CoreOptions Options() const;
  void PassTime(absl::Duration duration, bool all_alive);
  // standstill.cc
  void CountSilence();
  void PassRound(absl::Duration duration, const std::set<std::string>& silent);
  void BreakControlPlane();
  void StandStill(absl::Duration duration);
  void FillDisk(int rounds);
  void CheckSilence();
  // partition.cc
  void CutOff(Node& node);
  void CheckContact(const Core& core);
  void CheckPatience(const JobRecord& job) const;
  void CheckUnfenced(const JobRecord& job, const Seen& before) const;
  void FailOrRepairGpu(Node& node);
  std::vector<SlotHealth> HealthOf(const Node& node) const;

  void Check(bool condition, absl::string_view what) const;
  // Jobs that have ended are compared at every eighth call alone, or if `all` is set.
  void CheckCore(bool all = false);
  // In the event that the driver carries out: the lease of a worker ended, or a job changed.
  void CheckExpiry(const std::string& worker);
  void CheckLosses(const JobRecord& job);
  bool MayBeGivenUp(const std::string& worker) const;
  bool MayBeGivenUpForGood(const std::string& worker) const;
  bool IsSilentFor(const std::string& worker, absl::Duration timeout) const;
  void NoteStep(const Node& node, const RankReported& report);
  bool MakesSteps(const JobRecord& job) const;
  void CheckHarmed(const JobRecord& job) const;
  void CheckRetired(const JobRecord& job);
  void CheckHeard(const RankRecord& rank, const RankKey& key);
  // queue_checks.cc
  void CheckQueues(const Core& core);
  void CheckStart(const Core& core, const JobRecord& job,
                  const std::vector<const JobRecord*>& ahead);
  void CheckVictims(const Core& core);
  // Whether the quota of its project leaves enough devices for a job that waits, beside those that
  // were `dealt` to earlier jobs. `started` are the jobs that this event has placed.
  bool HasDevices(const Core& core, const JobRecord& of, int64_t dealt,
                  const std::set<std::string>& started) const;
  void CheckAttempts(const Core& core);
  // Whether the coordinator may count the rank as gone, now or since an earlier event.
  bool IsGone(const RankKey& rank, const std::string& worker);
  void NoteHeld(const WorkerRegistered& event);
  void CheckJob(const JobRecord& job);
  void CheckStore(const Core& core);
  // After a restart: nothing that was acknowledged is lost, and nothing else is there.
  void CheckLoaded(const Snapshot& loaded) const;
  // Every job that was accepted has ended, or says why it waits.
  void CheckEnd() const;

  const SimOptions options_;
  std::mt19937_64 random_;
  Probes& probes_;
  std::unique_ptr<TornDisk> disk_;  // null: the store is in memory
  std::unique_ptr<JobStore> kept_;
  std::unique_ptr<FaultyStore> store_;
  absl::Time wall_ = absl::FromUnixSeconds(1000);
  absl::Duration monotonic_ = absl::Seconds(7);
  absl::Duration last_tick_ = monotonic_;
  absl::Duration heard_until_ =
      monotonic_;  // until then silence has been counted, or does not count
  absl::Duration lost_rank_timeout_, lost_run_timeout_;
  int64_t keep_jobs_ = INT64_MAX;
  int64_t checks_ = 0;          // calls of CheckCore
  bool look_at_ended_ = false;  // in this one
  Quotas quotas_;
  absl::Duration next_commit_takes_;
  bool calm_ = false;              // nodes have no faults, now or from the beginning
  bool storing_ = true;            // the last commit succeeded
  bool after_gap_ = false;         // the present round decides nothing
  bool in_tick_ = false;           // the present event is a tick
  bool committed_ = false;         // the present event stored something
  std::set<std::string> expired_;  // workers whose lease the present event ended
  std::set<RankKey> lost_;         // ranks that have been given up
  std::unique_ptr<Driver> driver_;
  std::vector<Node> nodes_;
  int64_t next_session_ = 1;
  int64_t next_job_ = 1;
  bool asks_ = false;                                   // for a checkpoint, as soon as a job runs
  std::map<std::string, int32_t> steps_of_;             // by job uid
  std::set<std::pair<std::string, int64_t>> answered_;  // uid and number of a request: it was saved
  // What the coordinator knows to be stored: the records of every commit that succeeded.
  std::map<std::string, JobRecord> stored_;
  Epoch stored_epoch_;
  // Of jobs in commits that failed since: the store may have them.
  std::map<std::string, std::vector<std::optional<JobRecord>>> unsure_;
  std::map<int64_t, std::string> epoch_owner_;  // epochs that have left the coordinator
  std::map<std::string, Epoch> last_epoch_of_;  // by job uid, as sent
  std::map<RankKey, Heard> heard_;
  std::map<RankKey, std::vector<int64_t>> written_;  // fingerprints of each rank's reports
  std::set<RankKey> lossy_;                          // some of them are in no log and no memory
  std::map<RankKey, int64_t> counted_;               // by this coordinator: as many
  std::map<RankKey, int64_t> counted_ever_;
  // By job uid and epoch: since a step was reported that had just ended, as Node::silent.
  std::map<std::pair<std::string, int64_t>, absl::Duration> since_step_;
  std::set<std::string> accepted_;  // ids of jobs whose creation was acknowledged; not deleted
  std::map<std::string, JobRecord> ended_;
  std::map<std::string, Epoch> placed_;                // by job: its epoch at the last check
  std::map<std::string, Seen> seen_;                   // by uid
  std::set<std::pair<std::string, int64_t>> victims_;  // uid and epoch
  std::map<std::string, int64_t> resumed_;             // by uid: how often
  std::set<RankKey> gone_;  // they exited, or the coordinator may have given them up
};

}  // namespace stretto::coordinator::testing
