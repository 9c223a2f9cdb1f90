// SPDX-License-Identifier: Apache-2.0

// Per rank, `seen` is the newest known report; `sent` and `acked` follow it. Reports arrive live
// from the stream or are read from the log, which also closes gaps. Sending first looks for the
// next report in memory (recent, unsaved, ahead). Only then it reads the log, with the lock
// released: another thread may drop the rank meanwhile, so it is looked up again afterwards. While
// a trainer lives its log may yet be readable again; what an ended one's log does not have is lost.

#include "worker/daemon/report_relay.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/report/report_log.h"

namespace stretto::daemon {
namespace {

constexpr size_t kRecent = 64;       // reports kept in memory per rank
constexpr size_t kMaxRecent = 4096;  // limit for those that may be in no log
constexpr int64_t kReadBatch = 512;  // reports read from a log at a time

using stretto::v1alpha1::HeldRank;
using stretto::v1alpha1::RankExit;

absl::Status AppendToLog(const std::string& path, ReportRelay::Report report) {
  const int64_t expected = report.sequence();
  ASSIGN_OR_RETURN(ReportLog log, ReportLog::Open(path));
  if (log.last_sequence() + 1 != expected) {
    return absl::DataLossError(absl::StrCat(path, " ends with sequence ", log.last_sequence(),
                                            ", expected ", expected - 1));
  }
  RETURN_IF_ERROR(log.Append(&report));
  return log.Sync();
}

}  // namespace

struct ReportRelay::Cursor {
  Cursor(std::string path, std::shared_ptr<std::atomic<bool>> already_logged)
      : reader(std::move(path)), logged(std::move(already_logged)) {}

  // Returns nothing if there are no more reports, or if the log cannot be read. The first trouble
  // is logged.
  std::vector<Report> Read() {
    const MutexLock lock(mu);
    absl::StatusOr<std::vector<Report>> reports = reader.ReadNew(kReadBatch);
    const absl::Status trouble = reports.ok() ? reader.damage() : reports.status();
    if (!trouble.ok() && !logged->exchange(true)) {
      spdlog::error("report log is not intact: {}", trouble.ToString());
    }
    return reports.ok() ? *std::move(reports) : std::vector<Report>{};
  }

  Mutex mu;
  ReportReader reader GUARDED_BY(mu);
  const std::shared_ptr<std::atomic<bool>> logged;  // shared by the cursors of a rank
};

ReportRelay::ReportRelay(Observer observer, std::function<void()> wake)
    : observer_(std::move(observer)), wake_(std::move(wake)) {}

void ReportRelay::Add(const RankKey& key, const std::string& job_id, int32_t slot,
                      const RunFolder& folder) {
  {
    const MutexLock lock(mu_);
    const auto [it, added] = ranks_.try_emplace(key);
    if (!added) return;
    it->second.job_id = job_id;
    it->second.slot = slot;
    it->second.folder = folder;
    it->second.arrived = std::make_shared<Cursor>(folder.reports(), it->second.trouble_logged);
  }
  CatchUp(key);
}

void ReportRelay::TakeLocked(Rank& rank, const Report& report, bool live) {
  rank.seen = report.sequence();
  rank.recent.push_back(report);
  // A report may be dropped from memory if the log has it or the coordinator has acknowledged it.
  const auto elsewhere = [&] { return !live || rank.recent.front().sequence() <= rank.acked; };
  while (rank.recent.size() > kMaxRecent || (rank.recent.size() > kRecent && elsewhere())) {
    rank.recent.pop_front();
  }
  if (report.has_exit()) rank.exit = report.exit();
  observer_(report);
}

bool ReportRelay::Live(const Report& report) {
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(KeyOf(report));
    if (it == ranks_.end() || report.sequence() <= it->second.seen) return true;
    if (report.sequence() != it->second.seen + 1) return false;
    TakeLocked(it->second, report, /*live=*/true);
  }
  wake_();
  return true;
}

void ReportRelay::CatchUp(const RankKey& key) {
  MutexLock lock(mu_);
  auto it = ranks_.find(key);
  while (it != ranks_.end()) {
    const std::shared_ptr<Cursor> cursor = it->second.arrived;
    lock.Unlock();
    const std::vector<Report> reports = cursor->Read();
    lock.Lock();
    it = ranks_.find(key);
    if (reports.empty() || it == ranks_.end()) break;
    for (const Report& report : reports) {
      if (report.sequence() == it->second.seen + 1) TakeLocked(it->second, report, false);
    }
  }
  lock.Unlock();
  wake_();
}

void ReportRelay::Append(const RankKey& key, Report report) {
  RunFolder folder("");
  bool saved = true;
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return;
    folder = it->second.folder;
    saved = it->second.unsaved.empty();  // the log must have no gap
    report.set_job_id(it->second.job_id);
    report.set_job_uid(key.job_uid);
    report.set_epoch(key.epoch);
    report.set_rank(key.rank);
    report.set_sequence(it->second.seen + 1);
  }
  if (saved) {
    const absl::Status status = AppendToLog(folder.reports(), report);
    if (!status.ok()) {
      spdlog::error("report kept in memory only: {}", status.ToString());
      saved = false;
    }
  }
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return;
    if (!saved) it->second.unsaved.push_back(report);
    TakeLocked(it->second, report, /*live=*/!saved);
  }
  wake_();
}

void ReportRelay::End(const RankKey& key, bool stopped) {
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return;
    it->second.ended = true;
    it->second.stopped = stopped;
  }
  wake_();
}

std::optional<RankExit> ReportRelay::Exit(const RankKey& key) const {
  const MutexLock lock(mu_);
  const auto it = ranks_.find(key);
  return it == ranks_.end() ? std::nullopt : it->second.exit;
}

const ReportRelay::Report* ReportRelay::FindLocked(Rank& rank, int64_t sequence) {
  for (std::deque<Report>* reports : {&rank.recent, &rank.unsaved, &rank.ahead}) {
    if (reports->empty()) continue;
    const int64_t index = sequence - reports->front().sequence();
    if (index >= 0 && index < static_cast<int64_t>(reports->size())) {
      return &(*reports)[index];
    }
  }
  return nullptr;
}

const ReportRelay::Report* ReportRelay::FetchLocked(const RankKey& key, int64_t sequence) {
  auto it = ranks_.find(key);
  while (it != ranks_.end()) {
    if (const Report* found = FindLocked(it->second, sequence)) return found;
    if (it->second.resent == nullptr) {
      it->second.resent =
          std::make_shared<Cursor>(it->second.folder.reports(), it->second.trouble_logged);
    }
    const std::shared_ptr<Cursor> cursor = it->second.resent;
    mu_.Unlock();
    const std::vector<Report> reports = cursor->Read();
    mu_.Lock();
    if (reports.empty()) break;
    it = ranks_.find(key);
    if (it != ranks_.end()) it->second.ahead.assign(reports.begin(), reports.end());
  }
  return nullptr;
}

ReportRelay::Report ReportRelay::Lost(const RankKey& key, const Rank& rank, int64_t sequence) {
  Report report;
  report.set_job_id(rank.job_id);
  report.set_job_uid(key.job_uid);
  report.set_epoch(key.epoch);
  report.set_rank(key.rank);
  report.set_sequence(sequence);
  if (rank.exit.has_value() && sequence == rank.seen) {  // the exit is the last
    *report.mutable_exit() = *rank.exit;
    return report;
  }
  report.mutable_warning()->set_condition("LogIntact");
  report.mutable_warning()->set_reason("LogLost");
  report.mutable_warning()->set_message(
      absl::StrCat(rank.folder.reports(), ": reports are not there any more"));
  return report;
}

std::optional<ReportRelay::Report> ReportRelay::NextLocked(const RankKey& key) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end() || !it->second.sending || it->second.sent >= it->second.seen) {
    return std::nullopt;
  }
  const int64_t sequence = it->second.sent + 1;
  const Report* found = FetchLocked(key, sequence);
  const auto again = ranks_.find(key);
  if (again == ranks_.end()) return std::nullopt;
  Rank& rank = again->second;
  Report lost;
  if (found == nullptr && rank.ended) found = &(lost = Lost(key, rank, sequence));
  if (found == nullptr) return std::nullopt;
  // The rank may have been rewound while the log was read. Its exit is sent only after End, which
  // means that the process has been reaped.
  if (rank.sent + 1 != sequence || (found->has_exit() && !rank.ended)) return std::nullopt;
  Report report = *found;
  if (report.has_exit() && rank.stopped) report.mutable_exit()->set_stopped_by_daemon(true);
  rank.sent = sequence;
  return report;
}

std::optional<ReportRelay::Report> ReportRelay::Next() {
  const MutexLock lock(mu_);
  std::vector<RankKey> order;
  for (const auto& [key, rank] : ranks_) order.push_back(key);
  const auto turn = std::upper_bound(order.begin(), order.end(), last_sent_);
  std::rotate(order.begin(), turn, order.end());
  for (const RankKey& key : order) {
    std::optional<Report> report = NextLocked(key);
    if (!report.has_value()) continue;
    last_sent_ = key;
    return report;
  }
  return std::nullopt;
}

bool ReportRelay::Rewind(const RankKey& key, int64_t acked_sequence) {
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return false;
    it->second.sent = acked_sequence;
    it->second.ahead.clear();
    it->second.resent.reset();  // the next read may be earlier in the log
    it->second.sending = true;
  }
  Acked(key, acked_sequence);
  wake_();
  return true;
}

void ReportRelay::Pause() {
  const MutexLock lock(mu_);
  for (auto& [key, rank] : ranks_) rank.sending = false;
}

void ReportRelay::Acked(const RankKey& key, int64_t sequence) {
  std::optional<RunFolder> done;
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return;
    Rank& rank = it->second;
    rank.acked = std::max(rank.acked, std::min(sequence, rank.seen));
    if (rank.ended && rank.acked == rank.seen) {
      done = rank.folder;
      ranks_.erase(it);
    }
  }
  if (!done.has_value()) return;
  const absl::Status status = done->MarkDone();
  if (!status.ok()) spdlog::warn("rank not marked done: {}", status.ToString());
}

void ReportRelay::Drop(const RankKey& key) {
  std::optional<RunFolder> folder;
  {
    const MutexLock lock(mu_);
    const auto it = ranks_.find(key);
    if (it == ranks_.end()) return;
    folder = it->second.folder;
    if (!it->second.exit.has_value()) {
      Report end;  // so that the observer drops the rank too
      end.set_job_id(it->second.job_id);
      end.set_rank(key.rank);
      end.mutable_exit()->set_stopped_by_daemon(true);
      observer_(end);
    }
    ranks_.erase(it);
  }
  const absl::Status status = folder->MarkDone();
  if (!status.ok()) spdlog::warn("rank not marked done: {}", status.ToString());
}

std::vector<HeldRank> ReportRelay::Held() const {
  const MutexLock lock(mu_);
  std::vector<HeldRank> held;
  for (const auto& [key, rank] : ranks_) {
    HeldRank one;
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

bool ReportRelay::Idle() const {
  const MutexLock lock(mu_);
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return entry.second.acked >= entry.second.seen; });
}

}  // namespace stretto::daemon
