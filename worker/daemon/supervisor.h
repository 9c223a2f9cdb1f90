// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs this node's trainers: starts, watches and stops them, finds them again after a restart of
// the daemon, and records how each one ended. TrainerTable decides; this has the processes and
// their files. One thread waits on process descriptors; nothing polls. The destructor leaves every
// trainer running.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/line_rate.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/node_probe.h"
#include "worker/daemon/oom_kills.h"
#include "worker/daemon/position_watch.h"
#include "worker/daemon/process.h"
#include "worker/daemon/report_relay.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/trainer_memory.h"
#include "worker/daemon/trainers/rank_key.h"
#include "worker/daemon/trainers/trainer_table.h"

namespace stretto::daemon {

// Thread-safe.
class Supervisor {
 public:
  struct Options {
    std::string trainer_binary;
    std::string socket_path;
    std::vector<Slot> slots;
    std::string interface_address = "127.0.0.1";  // for tensors
    const PreparedRights* rights = nullptr;       // of trainers; borrowed; nullptr: the daemon's
    // Returns why nothing may run in that slot now; empty while healthy. Called before each start,
    // if given.
    std::function<std::string(const Slot&)> fault = nullptr;
    absl::Duration grace = absl::Seconds(10);  // default time from SIGTERM to SIGKILL
    // A trainer that has written its RankExit but does not exit is killed after this time.
    absl::Duration exit_grace = absl::Seconds(10);
    int keep_jobs = 50;  // folders of ended jobs
    // Of the log of each trainer, looked at every few seconds.
    int64_t max_log_bytes = limits::kTrainerLogBytes.value;
    std::string root = {};  // the folder that has proc
  };
  // Called with the number of live trainers when it changes, on any thread, without locks.
  using CountObserver = std::function<void(int)>;

  // `relay`, `folders` and `clock` are borrowed and must outlive this.
  Supervisor(Options options, const RunFolders& folders, ReportRelay& relay, const Clock& clock,
             CountObserver observer);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Takes over the ranks of an earlier daemon: watches live trainers of each job's newest epoch,
  // kills those of older epochs, and writes a RankExit for dead ones that left none. Call once,
  // before anything else.
  void Adopt();

  // Starts the ranks that this node has not seen before. If trainers of older epochs of the job
  // still run here, or trainers that are being stopped in one of the slots, it stops the former and
  // starts the ranks once all of them have ended. Trainers that are being stopped keep their grace.
  // A rank that cannot be started is reported by its RankExit (reason SlotUnknown, SlotFaulty,
  // DiskFull, SpawnFailed), and the rest of its gang on this node is stopped.
  void Assign(const stretto::v1alpha1::Assign& assign);

  // Forgets the assignments that wait. A daemon that registers offers only ranks that have started,
  // and the coordinator assigns again what it still wants.
  void ForgetWaiting();

  // Asks a trainer to stop by itself. Returns whether the request reached it.
  using Ask = std::function<bool(const RankKey&)>;
  // Sends SIGTERM, which asks for a checkpoint, to the ranks of this job with this epoch or an
  // older one, lets those continue that stand still, and sends SIGKILL after `grace`. If there is
  // an `ask`, calls it first; a trainer that it reaches gets SIGTERM only after a tenth of `grace`.
  void Stop(const std::string& job_uid, int64_t epoch, absl::Duration grace,
            const std::string& reason, const Ask& ask = nullptr);
  // The same for every trainer, and starts no more.
  void StopAll(absl::Duration grace, const std::string& reason, const Ask& ask);
  // The same for one rank.
  void StopOne(const RankKey& key, absl::Duration grace, const std::string& reason,
               const Ask& ask = nullptr);
  // Returns true if no trainer is left within `timeout`.
  bool WaitUntilEmpty(absl::Duration timeout);

  // Returns the task of a trainer: assign, slot and run_folder. Errors: ABORTED (not a live rank of
  // the newest epoch here, or another process than the one that was started).
  absl::StatusOr<stretto::v1alpha1::AttachResponse> Attach(
      const stretto::v1alpha1::AttachRequest& request) const;
  absl::Status CheckCurrent(const RankKey& key) const;
  bool Alive(const RankKey& key) const;
  // The live trainers that nobody has asked to end.
  std::vector<WatchedTrainer> Running() const;
  // The memory of the live trainers.
  std::vector<TrainerMemory> Memory() const;

  // Notes that a live trainer is asked for a checkpoint, for the case that it connects only later.
  // The numbers of requests grow.
  void NoteSave(const RankKey& key, int64_t request);
  // The newest of them; 0: none.
  int64_t SaveOf(const RankKey& key) const;

  // Reads the rank's log on the watching thread.
  void CatchUpLater(const RankKey& key);
  // The trainer has reported its RankExit and must exit within `exit_grace`.
  void ExpectExit(const RankKey& key);

 private:
  // A trainer, alive or not reaped yet.
  struct Process {
    Assignment assign;
    RunFolder folder{""};
    ProcessId process;
    FileDescriptor watch;
  };
  struct EndedProcess {
    RankKey key;
    ExitStatus status;
  };

  // Reports those that will never start, and asks trainers to end.
  void CarryOut(const TrainerTable::Effects& effects, absl::Duration grace, const Ask& ask)
      EXCLUDES(mu_);
  // Starts the assignments that wait for nobody.
  void StartFree() REQUIRES(start_mu_);
  void StartRanks(const Assignment& assign) REQUIRES(start_mu_);
  bool WasHere(const RankKey& key) const;
  // The name of a trainer's control group.
  static std::string TrainerGroupOf(const RankKey& key);
  absl::Status StartRank(const Assignment& assign, const RankKey& key, int32_t slot);
  // Returns true if the rank failed on its own while no daemon was running.
  bool AdoptRun(const StoredRun& run);
  void ReportUnstarted(const RankKey& key, const stretto::v1alpha1::Assign& assign, int32_t slot,
                       const absl::Status& why);
  void WriteExit(const RankKey& key, const std::string& job_id, const RunFolder& folder,
                 const ProcessId& process, const ExitStatus& status,
                 const std::string& stop_reason);
  void NotifyCount() EXCLUDES(mu_);

  void Run();
  void WaitForEvents();
  void BoundLogs();
  void FireDeadlines();
  std::vector<EndedProcess> CollectEnded();
  void HandleEnded(std::vector<EndedProcess> ended);
  void HandleOne(const EndedProcess& ended);
  // Whether memory ran out for a trainer that SIGKILL ended, and that we had not asked to end.
  bool RanOutOfMemory(const RankKey& key) const;
  void Wake();

  const Options options_;
  const RunFolders& folders_;
  ReportRelay& relay_;
  const Clock& clock_;
  const CountObserver observer_;
  OomKills oom_kills_;  // of the watching thread
  LineRate unbounded_logs_{1, absl::Hours(1)};

  // Held while the ranks of assignments are started, and before mu_.
  Mutex start_mu_;
  mutable Mutex mu_;
  CondVar emptied_;
  TrainerTable table_ GUARDED_BY(mu_);
  // Those of the table, and the one whose end is being reported.
  std::map<RankKey, Process> processes_ GUARDED_BY(mu_);
  std::set<RankKey> catch_up_ GUARDED_BY(mu_);
  bool stop_ GUARDED_BY(mu_) = false;
  FileDescriptor event_;  // eventfd that ends a wait
  std::thread thread_;
};

}  // namespace stretto::daemon
