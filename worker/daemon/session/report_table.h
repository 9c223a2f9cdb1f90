// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node decides about the reports of its ranks: which of them are new, which one is sent
// next, where a new session begins, and when a rank is done. A state machine without files, threads
// and sessions: where it needs the log of a rank it says so, and its caller reads it. ReportRelay
// has real logs (worker/daemon/report_relay.h), and the simulated cluster has simulated ones
// (tests/simcluster).
//
// A rank numbers its reports from 1. Its log is authoritative: reports that a stream skips, repeats
// or loses are read from it. Trainers write both, so the ids of a report are those of the rank
// whose log or stream it comes from: no trainer reports for another one. A report of a log may
// count others before it that the log has dropped. In place of reports that the log of an ended
// rank does not have a warning is sent (condition LogIntact), so that later reports, the exit above
// all, are sent.
//
// A rank's RankExit is sent only when its process has been reaped. So exits are in the order of
// deaths, and a rank that is reported as gone has freed its slot.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// How many reports of a rank are kept in memory.
struct ReportMemory {
  size_t recent = 64;  // of those that the log has too
  size_t most = 4096;  // of those that may be in no log
};

// Not thread-safe.
class ReportTable {
 public:
  using Report = stretto::v1alpha1::RankReport;
  // Receives each report once, in order per rank.
  using Observer = std::function<void(const Report&)>;

  explicit ReportTable(Observer observer, ReportMemory memory = {});

  // ---- arrival

  // Adds a rank. `slot` is for Held, and `log` names its log in messages. Returns false if it is
  // there already.
  bool Add(const RankKey& key, const std::string& job_id, int32_t slot, const std::string& log);

  enum class Arrival {
    kTaken,
    kIgnored,  // a repeat, or of an unknown rank
    kGap,      // earlier reports are missing here, or counted as dropped: read the log
  };
  // A report of the trainer's stream. The log has it unless the disk is full; then it is kept here
  // until it is acknowledged.
  Arrival Live(const Report& report);
  // Reports that the log has, in order. Repeats are ignored.
  void Logged(const RankKey& key, const std::vector<Report>& reports);

  // Returns a report of the daemon itself with the ids and the number of the rank's next one.
  // nullopt: the rank is unknown. Only valid while its trainer is not running.
  std::optional<Report> Numbered(const RankKey& key, Report report) const;
  // Takes what Numbered has returned; `logged`: the log has it. Of those that it does not have only
  // a RankExit is taken: a trainer that starts continues the numbers of the log. Returns whether it
  // was taken.
  bool Own(const RankKey& key, const Report& report, bool logged);

  // The process is gone. `stopped` means that this daemon caused its exit.
  void End(const RankKey& key, bool stopped);
  // Returns the rank's RankExit, if it has one.
  std::optional<stretto::v1alpha1::RankExit> Exit(const RankKey& key) const;

  // ---- sending

  // Of ranks whose log has been read to its end without finding it: the report that was wanted.
  using Missing = std::map<RankKey, int64_t>;
  struct Turn {
    std::optional<Report> report;  // send it
    // Otherwise: continue to read the log of this rank, which needs this report. Give what was read
    // to Fetched or, if it was nothing, note the report as missing, and ask again.
    std::optional<RankKey> read;
    int64_t sequence = 0;
  };
  // Returns the next report to send: ranks take turns, each in order. Neither a report nor a rank
  // to read: there is nothing at present. What an ended rank is missing is lost; the log of others
  // may have it later.
  Turn Next(const Missing& missing);
  void Fetched(const RankKey& key, const std::vector<Report>& reports);

  // A new session has started: sends from acked_sequence + 1 on. The next read for sending begins
  // at the start of the log. Returns false for an unknown rank.
  bool Rewind(const RankKey& key, int64_t acked_sequence);
  // Sends nothing until the rank's Rewind.
  void Pause();
  // The coordinator has received everything up to `sequence`. Returns true if the rank, which has
  // ended and is fully acknowledged, is done; it is then forgotten.
  bool Acked(const RankKey& key, int64_t sequence);
  // The coordinator does not want the rank: it is forgotten, and the observer told of its end.
  // Returns false for an unknown rank.
  bool Drop(const RankKey& key);

  // ---- queries

  // What a registration offers. Notes which ranks it calls alive, for their Rewind.
  std::vector<stretto::v1alpha1::HeldRank> Held();
  // Returns true if every report of every rank has been acknowledged.
  bool Idle() const;

 private:
  struct Rank {
    std::string job_id;
    int32_t slot = 0;
    std::string log;
    int64_t seen = 0;  // newest known sequence, which the observer has received
    int64_t sent = 0;
    int64_t acked = 0;
    bool sending = true;
    bool ended = false;
    bool stopped = false;
    bool offered_alive = false;  // by the last Held
    std::optional<stretto::v1alpha1::RankExit> exit;
    std::deque<Report> recent;  // the newest ones, up to `seen`
    std::deque<Report> ahead;   // read from the log for sending
  };

  // Returns a report of this rank with its ids, whatever the trainer wrote there.
  static Report Named(const RankKey& key, const Rank& rank, Report report);
  // `live`: the report may not be in the log.
  void Take(const RankKey& key, Rank& rank, const Report& report, bool live);
  // Returns the report with this number, or the one that counts it as dropped.
  static const Report* Find(const Rank& rank, int64_t sequence);
  // Returns what is sent for the reports from `sequence` on, up to the next one that is in memory,
  // that neither memory nor the log of an ended rank has.
  static Report Lost(const RankKey& key, const Rank& rank, int64_t sequence);
  // Returns whether the rank has something to send or to read.
  bool TakeTurn(const RankKey& key, Rank& rank, const Missing& missing, Turn* turn);

  Observer observer_;
  ReportMemory memory_;
  std::map<RankKey, Rank> ranks_;
  RankKey last_sent_;
};

}  // namespace stretto::daemon
