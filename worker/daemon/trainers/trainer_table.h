// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node decides about its trainers: which ones are asked to end, when they get a signal, and
// which assignments wait for them. A state machine without processes, files, threads and clocks: a
// method is an event, and returns what its caller has to do. The supervisor does it with processes
// (worker/daemon/supervisor.h), and the simulated cluster with simulated ones (tests/simcluster).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// A node's ranks of one attempt of a job; shared by them.
using Assignment = std::shared_ptr<const stretto::v1alpha1::Assign>;

// Not thread-safe. Times are monotonic.
class TrainerTable {
 public:
  // From its start until its end has been reported.
  struct Trainer {
    int32_t slot = 0;
    bool stopping = false;  // somebody has asked it to end
    std::string stop_reason;
    int64_t save = 0;                       // number of the newest request for a checkpoint
    std::optional<absl::Duration> term_at;  // a SIGTERM is due
    std::optional<absl::Duration> kill_at;  // a SIGKILL is due
  };
  // What is to be done after an event, in this order.
  struct Effects {
    // These were stopped while they waited: each of their ranks that has never run is reported as
    // never started.
    std::vector<Assignment> unstarted;
    // Ask them to end for this reason, each followed by Asked.
    std::vector<RankKey> stop;
    std::string reason;
  };
  struct Signal {
    RankKey key;
    bool kill = false;  // SIGKILL, else SIGTERM
  };

  // ---- assignments

  // The epoch becomes the newest one of its job, and trainers of older ones are asked to end if
  // nobody has done so: those that are being stopped keep their grace. The assignment waits for
  // TakeFree; one that waits already is not added again. Errors: ABORTED (a newer epoch of the job
  // is known).
  absl::StatusOr<Effects> Assign(const Assignment& assign);
  // Removes the assignments that wait for nobody, for their start: no trainer of an older epoch of
  // their job is left, and none that is being stopped holds one of their slots.
  std::vector<Assignment> TakeFree();
  void ForgetWaiting() { waiting_.clear(); }

  // Returns OK, or CANCELLED with the reason why a rank may not join its gang: all trainers are
  // being stopped, another rank of the gang has failed, or its epoch has been stopped.
  absl::Status MayStart(const RankKey& key) const;
  void Started(const RankKey& key, int32_t slot);

  // ---- the end of trainers

  // The ranks of the job with this epoch or an older one end, and such an epoch never starts.
  Effects Stop(const std::string& job_uid, int64_t epoch, const std::string& reason);
  // All end, and none starts any more.
  Effects StopAll(const std::string& reason);
  Effects StopOne(const RankKey& key, const std::string& reason);
  // The trainer has been asked to end: SIGKILL is due after `grace`, if not earlier for another
  // reason, and SIGTERM now. If the request `reached` the trainer itself, SIGTERM is due after a
  // tenth of `grace`. Ignored if the trainer has ended.
  void Asked(const RankKey& key, absl::Duration now, absl::Duration grace, bool reached);
  // The trainer has reported its exit: SIGKILL is due after `grace`, unless one is due already.
  void ExpectExit(const RankKey& key, absl::Duration now, absl::Duration grace);
  // The process is gone. `failed`: by itself, so that the rest of its gang ends too, and no other
  // rank of it starts.
  Effects Ended(const RankKey& key, bool failed);

  // Removes and returns the signals that are due. A SIGKILL replaces a SIGTERM.
  std::vector<Signal> TakeDue(absl::Duration now);
  // When the next signal is due; InfiniteDuration() for none.
  absl::Duration NextDue() const;

  // ---- after a restart of the daemon

  // An epoch of the job was here.
  void NoteEpoch(const std::string& job_uid, int64_t epoch);
  // A trainer of an earlier daemon lives. One that was `stopping` gets its signals again, because
  // they may not have been sent.
  void Adopted(const RankKey& key, int32_t slot, bool stopping, absl::Duration now,
               absl::Duration grace);

  // ---- queries

  // Null if there is no such trainer.
  const Trainer* Find(const RankKey& key) const;
  const std::map<RankKey, Trainer>& trainers() const { return trainers_; }
  const std::vector<Assignment>& waiting() const { return waiting_; }
  // 0: none was here.
  int64_t NewestEpoch(const std::string& job_uid) const;
  // Notes that a trainer is asked for a checkpoint; the numbers of requests grow.
  void NoteSave(const RankKey& key, int64_t request);

 private:
  using Selector = std::function<bool(const RankKey&)>;
  Effects StopChosen(const Selector& chosen, const std::string& reason);
  bool IsBlocked(const stretto::v1alpha1::Assign& assign) const;

  std::map<RankKey, Trainer> trainers_;
  std::vector<Assignment> waiting_;
  std::map<std::string, int64_t> epochs_;   // newest per job uid
  std::map<std::string, int64_t> stopped_;  // the newest that was stopped, per job uid
  // Gangs (job uid, epoch) that lost a rank.
  std::set<std::pair<std::string, int64_t>> broken_;
  bool closed_ = false;  // StopAll was called
};

}  // namespace stretto::daemon
