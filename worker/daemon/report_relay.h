// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forwards every report of every rank once and in order: from the rank's report log or, to avoid
// reading it again, from the trainer's stream; to the metrics immediately, and to the coordinator
// while there is a session. ReportTable decides; this has the logs, their readers and the lock.

#include <atomic>
#include <cstdint>
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
#include "worker/daemon/session/report_table.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// Thread-safe. `Live` never accesses a file; other methods may.
class ReportRelay {
 public:
  using Report = ReportTable::Report;
  using Observer = ReportTable::Observer;

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
  // not running. If the log cannot be written, a RankExit is kept in memory until acknowledged, and
  // any other report is dropped.
  void Append(const RankKey& key, Report report);

  // The process is gone. `stopped` means that this daemon caused its exit.
  void End(const RankKey& key, bool stopped);

  // Returns the rank's RankExit, if it has one.
  std::optional<stretto::v1alpha1::RankExit> Exit(const RankKey& key) const;

  // Returns the next report to send: ranks take turns, each in order. nullopt: nothing at present.
  // Called by one thread at a time.
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

  std::vector<stretto::v1alpha1::HeldRank> Held();
  // Returns true if every report of every rank has been acknowledged.
  bool Idle() const;

 private:
  struct Cursor;  // a reader of the log, and its lock
  struct Log {
    RunFolder folder{""};
    std::shared_ptr<std::atomic<bool>> trouble_logged = std::make_shared<std::atomic<bool>>(false);
    // Shared, because a rank may be dropped while its log is read.
    std::shared_ptr<Cursor> arrived;  // at the newest known report or earlier
    std::shared_ptr<Cursor> resent;   // for sending; null: at the start
  };

  // Returns the folder of a rank that the table has forgotten, and forgets it.
  RunFolder ForgetLocked(const RankKey& key) REQUIRES(mu_);

  const std::function<void()> wake_;
  mutable Mutex mu_;
  ReportTable table_ GUARDED_BY(mu_);
  std::map<RankKey, Log> logs_ GUARDED_BY(mu_);  // of the ranks in the table
};

}  // namespace stretto::daemon
