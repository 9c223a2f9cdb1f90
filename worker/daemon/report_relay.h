// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every report of every rank passes here once and in order: from the rank's report log or, as a
// short cut that saves reading it again, from the trainer's stream; to the metrics at once and to
// the coordinator when there is one. The report log is the truth. Whatever a stream skips, repeats
// or loses is read from the log.
//
// A rank's RankExit leaves this node only when its process has been reaped: the order of exits is
// the order of deaths, and a rank that is reported as gone has freed its slot.

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
#include "worker/daemon/rank_key.h"
#include "worker/daemon/run_folder.h"

namespace stretto::daemon {

// Thread-safe. `Live` never touches a file; the others may.
class ReportRelay {
 public:
  using Report = stretto::v1alpha1::RankReport;
  using Observer = std::function<void(const Report&)>;

  // `observer` sees each report once, in order per rank, with the relay locked. `wake` is called
  // when Next may have something new.
  ReportRelay(Observer observer, std::function<void()> wake);

  // A rank joins, with whatever its log holds. `job_id` and `slot` are for Held().
  void Add(const RankKey& key, const std::string& job_id, int32_t slot, const RunFolder& folder);

  // A report from the trainer's stream, already in its log unless its disk is full: then it is kept
  // here until acknowledged, up to a few thousand. False: reports before it are missing here; call
  // CatchUp from a thread that may read files. Unknown ranks are ignored.
  bool Live(const Report& report);
  void CatchUp(const RankKey& key);

  // Writes a report of the daemon itself as the rank's next one; only while its trainer does not
  // run. When the log cannot be written, the report is kept in memory until acknowledged.
  void Append(const RankKey& key, Report report);

  // The process is gone. `stopped` marks its exit as caused by this daemon.
  void End(const RankKey& key, bool stopped);

  // The rank's RankExit, if it has one.
  std::optional<stretto::v1alpha1::RankExit> Exit(const RankKey& key) const;

  // The next report to send, ranks in turn, each in order. nullopt: nothing for now.
  std::optional<Report> Next();
  // A new session: send from acked_sequence + 1 on. False: unknown rank.
  bool Rewind(const RankKey& key, int64_t acked_sequence);
  // Nothing is sent until the rank's Rewind.
  void Pause();
  // Up to `sequence` is known to the coordinator. A rank that has ended and is fully acknowledged
  // is marked done and forgotten.
  void Acked(const RankKey& key, int64_t sequence);
  // The coordinator does not want this rank; its folder is marked done.
  void Drop(const RankKey& key);

  std::vector<stretto::v1alpha1::HeldRank> Held() const;
  // True when everything of every rank has been acknowledged.
  bool Idle() const;

 private:
  struct Cursor;  // a reader of the log, and its lock
  struct Rank {
    std::string job_id;
    int32_t slot = 0;
    RunFolder folder{""};
    int64_t seen = 0;  // newest sequence known; the observer has had it
    int64_t sent = 0;
    int64_t acked = 0;
    bool sending = true;
    bool ended = false;
    bool stopped = false;
    std::optional<stretto::v1alpha1::RankExit> exit;
    std::deque<Report> recent;   // the last ones, ending with `seen`
    std::deque<Report> unsaved;  // not in the log: disk full
    std::deque<Report> ahead;    // read from the log for sending
    // Shared: a rank may be dropped while its log is read.
    std::shared_ptr<Cursor> arrived;  // at `seen` or behind
    std::shared_ptr<Cursor> resent;   // for `ahead`
  };

  // `live`: perhaps not in the log.
  void TakeLocked(Rank& rank, const Report& report, bool live) REQUIRES(mu_);
  const Report* FindLocked(Rank& rank, int64_t sequence) REQUIRES(mu_);
  // Reads on in the log until `sequence` is in memory. Unlocks meanwhile.
  const Report* FetchLocked(const RankKey& key, int64_t sequence) REQUIRES(mu_);
  std::optional<Report> NextLocked(const RankKey& key) REQUIRES(mu_);

  const Observer observer_;
  const std::function<void()> wake_;
  mutable Mutex mu_;
  std::map<RankKey, Rank> ranks_ GUARDED_BY(mu_);
  RankKey last_sent_ GUARDED_BY(mu_);
};

}  // namespace stretto::daemon
