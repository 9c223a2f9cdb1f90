// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forwards every report of every rank once and in order: from the rank's report log or, to avoid
// reading it again, from the trainer's stream; to the metrics immediately, and to the coordinator
// while there is a session. The report log is authoritative: reports that a stream skips, repeats
// or loses are read from the log. In place of each report that is lost with a damaged log the relay
// sends a warning (condition LogIntact), so that later reports, the exit above all, are sent.
//
// A rank's RankExit leaves this node only when its process has been reaped. So exits are in the
// order of deaths, and a rank that is reported as gone has freed its slot.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// Thread-safe. `Live` never accesses a file; other methods may.
class ReportRelay {
 public:
  using Report = stretto::v1alpha1::RankReport;
  using Observer = std::function<void(const Report&)>;

  // `observer` receives each report once, in order per rank, with the relay locked. `wake` is
  // called when Next may have a new report.
  ReportRelay(Observer observer, std::function<void()> wake);

  // Adds a rank and the reports in its log. `job_id` and `slot` are for Held().
  void Add(const RankKey& key, const std::string& job_id, int32_t slot, const RunFolder& folder);

  // Takes a report from the trainer's stream. It is already in the rank's log unless the disk is
  // full; then it is kept here until acknowledged, up to a few thousand. Returns false if earlier
  // reports are missing here: call CatchUp from a thread that may read files. Ignores unknown
  // ranks.
  bool Live(const Report& report);
  void CatchUp(const RankKey& key);

  // Writes a report of the daemon itself as the rank's next one. Only valid while its trainer is
  // not running. If the log cannot be written, the report is kept in memory until acknowledged.
  void Append(const RankKey& key, Report report);

  // The process is gone. `stopped` means that this daemon caused its exit.
  void End(const RankKey& key, bool stopped);

  // Returns the rank's RankExit, if it has one.
  std::optional<stretto::v1alpha1::RankExit> Exit(const RankKey& key) const;

  // Returns the next report to send: ranks take turns, each in order. nullopt: nothing at present.
  std::optional<Report> Next();
  // A new session has started: sends from acked_sequence + 1 on. Returns false for an unknown rank.
  bool Rewind(const RankKey& key, int64_t acked_sequence);
  // Sends nothing until the rank's Rewind.
  void Pause();
  // The coordinator has received everything up to `sequence`. A rank that has ended and is fully
  // acknowledged is marked done and dropped.
  void Acked(const RankKey& key, int64_t sequence);
  // Drops a rank that the coordinator does not want and marks its folder done.
  void Drop(const RankKey& key);

  std::vector<stretto::v1alpha1::HeldRank> Held() const;
  // Returns true if every report of every rank has been acknowledged.
  bool Idle() const;

 private:
  struct Cursor;  // a reader of the log, and its lock
  struct Rank {
    std::string job_id;
    int32_t slot = 0;
    RunFolder folder{""};
    int64_t seen = 0;  // newest known sequence, which the observer has received
    int64_t sent = 0;
    int64_t acked = 0;
    bool sending = true;
    bool ended = false;
    bool stopped = false;
    std::optional<stretto::v1alpha1::RankExit> exit;
    std::shared_ptr<std::atomic<bool>> trouble_logged = std::make_shared<std::atomic<bool>>(false);
    std::deque<Report> recent;   // the newest ones, up to `seen`
    std::deque<Report> unsaved;  // not in the log: disk full
    std::deque<Report> ahead;    // read from the log for sending
    // Shared, because a rank may be dropped while its log is read.
    std::shared_ptr<Cursor> arrived;  // at `seen` or earlier
    std::shared_ptr<Cursor> resent;   // for `ahead`
  };

  // `live`: the report may not be in the log.
  void TakeLocked(Rank& rank, const Report& report, bool live) REQUIRES(mu_);
  const Report* FindLocked(Rank& rank, int64_t sequence) REQUIRES(mu_);
  // Returns what is sent for a report that neither memory nor the log of an ended rank has.
  static Report Lost(const RankKey& key, const Rank& rank, int64_t sequence);
  // Continues reading the log until `sequence` is in memory. Unlocks meanwhile.
  const Report* FetchLocked(const RankKey& key, int64_t sequence) REQUIRES(mu_);
  std::optional<Report> NextLocked(const RankKey& key) REQUIRES(mu_);

  const Observer observer_;
  const std::function<void()> wake_;
  mutable Mutex mu_;
  std::map<RankKey, Rank> ranks_ GUARDED_BY(mu_);
  RankKey last_sent_ GUARDED_BY(mu_);
};

}  // namespace stretto::daemon
