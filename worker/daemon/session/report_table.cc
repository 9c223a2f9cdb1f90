// SPDX-License-Identifier: Apache-2.0

// Per rank, `seen` is the newest known report; `sent` and `acked` follow it. Sending first looks
// for the next report in memory (recent, ahead), and asks for the log only if it is not there. The
// caller may unlock while it reads, so nothing is remembered between two calls of Next: a rank that
// was rewound or dropped meanwhile is judged anew.

#include "worker/daemon/session/report_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/reporting/dropped_reports.h"

namespace stretto::daemon {

namespace v1 = stretto::v1alpha1;

ReportTable::ReportTable(Observer observer, ReportMemory memory)
    : observer_(std::move(observer)), memory_(memory) {}

// ---- arrival

bool ReportTable::Add(const RankKey& key, const std::string& job_id, int32_t slot,
                      const std::string& log) {
  const auto [it, added] = ranks_.try_emplace(key);
  if (!added) return false;
  it->second.job_id = job_id;
  it->second.slot = slot;
  it->second.log = log;
  return true;
}

ReportTable::Report ReportTable::Named(const RankKey& key, const Rank& rank, Report report) {
  report.set_job_id(rank.job_id);
  report.set_job_uid(key.job_uid);
  report.set_epoch(key.epoch);
  report.set_rank(key.rank);
  return report;
}

void ReportTable::Take(const RankKey& key, Rank& rank, const Report& report, bool live) {
  rank.seen = report.sequence();
  rank.recent.push_back(Named(key, rank, report));
  observer_(rank.recent.back());
  // A report may be dropped from memory if the log has it or the coordinator has acknowledged it.
  const auto elsewhere = [&] { return !live || rank.recent.front().sequence() <= rank.acked; };
  while (rank.recent.size() > memory_.most ||
         (rank.recent.size() > memory_.recent && elsewhere())) {
    rank.recent.pop_front();
  }
  if (report.has_exit()) rank.exit = report.exit();
}

ReportTable::Arrival ReportTable::Live(const Report& report) {
  const auto it = ranks_.find(KeyOf(report));
  if (it == ranks_.end() || report.sequence() <= it->second.seen) return Arrival::kIgnored;
  if (report.sequence() != it->second.seen + 1 || report.has_dropped()) return Arrival::kGap;
  Take(it->first, it->second, report, /*live=*/true);
  return Arrival::kTaken;
}

void ReportTable::Logged(const RankKey& key, const std::vector<Report>& reports) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  for (const Report& report : reports) {
    const int64_t next = it->second.seen + 1;
    if (FirstNumber(report) <= next && next <= report.sequence())
      Take(key, it->second, report, /*live=*/false);
  }
}

std::optional<ReportTable::Report> ReportTable::Numbered(const RankKey& key, Report report) const {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return std::nullopt;
  report.set_sequence(it->second.seen + 1);
  return Named(key, it->second, std::move(report));
}

bool ReportTable::Own(const RankKey& key, const Report& report, bool logged) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end() || (!logged && !report.has_exit())) return false;
  Take(key, it->second, report, /*live=*/!logged);
  return true;
}

void ReportTable::End(const RankKey& key, bool stopped) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  it->second.ended = true;
  it->second.stopped = stopped;
}

std::optional<v1::RankExit> ReportTable::Exit(const RankKey& key) const {
  const auto it = ranks_.find(key);
  return it == ranks_.end() ? std::nullopt : it->second.exit;
}

// ---- sending

const ReportTable::Report* ReportTable::Find(const Rank& rank, int64_t sequence) {
  for (const std::deque<Report>* reports : {&rank.recent, &rank.ahead}) {
    const auto found = std::partition_point(
        reports->begin(), reports->end(),
        [sequence](const Report& report) { return report.sequence() < sequence; });
    if (found != reports->end() && FirstNumber(*found) <= sequence) return &*found;
  }
  return nullptr;
}

ReportTable::Report ReportTable::Lost(const RankKey& key, const Rank& rank, int64_t sequence) {
  Report report = Named(key, rank, {});
  report.set_sequence(sequence);
  if (rank.exit.has_value() && sequence == rank.seen) {  // the exit is the last
    *report.mutable_exit() = *rank.exit;
    return report;
  }
  int64_t last = rank.exit.has_value() ? rank.seen - 1 : rank.seen;
  for (const std::deque<Report>* reports : {&rank.recent, &rank.ahead}) {
    for (const Report& known : *reports) {
      if (known.sequence() > sequence) last = std::min(last, FirstNumber(known) - 1);
    }
  }
  report.set_sequence(last);
  if (last > sequence) report.mutable_dropped()->set_reports(last - sequence);
  report.mutable_warning()->set_condition("LogIntact");
  report.mutable_warning()->set_reason("LogLost");
  report.mutable_warning()->set_message(absl::StrCat(rank.log, ": reports are not there any more"));
  return report;
}

bool ReportTable::TakeTurn(const RankKey& key, Rank& rank, const Missing& missing, Turn* turn) {
  if (!rank.sending || rank.sent >= rank.seen) return false;
  const int64_t sequence = rank.sent + 1;
  std::optional<Report> report;
  if (const Report* found = Find(rank, sequence)) {
    report = *found;
    DropOnlyAfter(rank.sent, &*report);
  } else if (const auto at = missing.find(key); at == missing.end() || at->second != sequence) {
    turn->read = key;
    turn->sequence = sequence;
    return true;
  } else if (rank.ended) {
    report = Lost(key, rank, sequence);
  }
  if (!report.has_value() || (report->has_exit() && !rank.ended)) return false;
  if (report->has_exit() && rank.stopped) report->mutable_exit()->set_stopped_by_daemon(true);
  rank.sent = report->sequence();
  last_sent_ = key;
  turn->report = std::move(report);
  return true;
}

ReportTable::Turn ReportTable::Next(const Missing& missing) {
  Turn turn;
  const auto first = ranks_.upper_bound(last_sent_);
  for (auto it = first; it != ranks_.end(); ++it) {
    if (TakeTurn(it->first, it->second, missing, &turn)) return turn;
  }
  for (auto it = ranks_.begin(); it != first; ++it) {
    if (TakeTurn(it->first, it->second, missing, &turn)) return turn;
  }
  return turn;
}

void ReportTable::Fetched(const RankKey& key, const std::vector<Report>& reports) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  it->second.ahead.clear();
  for (const Report& report : reports) it->second.ahead.push_back(Named(key, it->second, report));
}

bool ReportTable::Rewind(const RankKey& key, int64_t acked_sequence) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return false;
  Rank& rank = it->second;
  acked_sequence = std::clamp<int64_t>(acked_sequence, 0, kMaxTrainerNumber);
  // A full disk kept reports out of the log, and with the daemon before us their copies are gone.
  // The trainer continues its own numbers, and our report of its death must not repeat one.
  if (acked_sequence > rank.seen && !rank.ended) {
    rank.seen = acked_sequence;
    rank.recent.clear();  // its numbers have no gap
  } else if (acked_sequence >= rank.seen && rank.exit.has_value() && rank.offered_alive) {
    // Our report of its death has repeated one: the rank ended while the coordinator answered.
    Report death = rank.recent.back();
    death.set_sequence(acked_sequence + 1);
    rank.seen = acked_sequence + 1;
    rank.recent.assign(1, death);
  }
  rank.sent = acked_sequence;
  rank.ahead.clear();
  rank.sending = true;
  return true;
}

void ReportTable::Pause() {
  for (auto& [key, rank] : ranks_) rank.sending = false;
}

bool ReportTable::Acked(const RankKey& key, int64_t sequence) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return false;
  Rank& rank = it->second;
  rank.acked = std::max(rank.acked, std::min(sequence, rank.seen));
  const bool done = rank.ended && rank.acked == rank.seen;
  if (done) ranks_.erase(it);
  return done;
}

bool ReportTable::Drop(const RankKey& key) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return false;
  if (!it->second.exit.has_value()) {
    Report end = Named(key, it->second, {});  // so that the observer drops the rank too
    end.mutable_exit()->set_stopped_by_daemon(true);
    observer_(end);
  }
  ranks_.erase(it);
  return true;
}

// ---- queries

std::vector<v1::HeldRank> ReportTable::Held() {
  std::vector<v1::HeldRank> held;
  for (auto& [key, rank] : ranks_) {
    rank.offered_alive = !rank.ended;
    v1::HeldRank one;
    one.set_job_id(rank.job_id);
    one.set_job_uid(key.job_uid);
    one.set_epoch(key.epoch);
    one.set_rank(key.rank);
    one.set_alive(!rank.ended);
    one.set_last_sequence(rank.seen);
    one.set_slot(rank.slot);
    held.push_back(std::move(one));
  }
  return held;
}

bool ReportTable::Idle() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return entry.second.acked >= entry.second.seen; });
}

}  // namespace stretto::daemon
