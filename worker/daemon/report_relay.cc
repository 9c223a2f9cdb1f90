// SPDX-License-Identifier: Apache-2.0

// A log is read with the lock released: another thread may drop or rewind the rank meanwhile, so it
// is looked up again afterwards, and the table is asked again. Two readers per rank follow the log:
// one for reports that the stream skipped, one for those that are sent again.

#include "worker/daemon/report_relay.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/report/report_log.h"

namespace stretto::daemon {
namespace {

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
    : wake_(std::move(wake)), table_(std::move(observer)) {}

void ReportRelay::Add(const RankKey& key, const std::string& job_id, int32_t slot,
                      const RunFolder& folder) {
  {
    const MutexLock lock(mu_);
    if (!table_.Add(key, job_id, slot, folder.reports())) return;
    Log& log = logs_[key];
    log.folder = folder;
    log.arrived = std::make_shared<Cursor>(folder.reports(), log.trouble_logged);
  }
  CatchUp(key);
}

bool ReportRelay::Live(const Report& report) {
  ReportTable::Arrival arrival = ReportTable::Arrival::kIgnored;
  {
    const MutexLock lock(mu_);
    arrival = table_.Live(report);
  }
  if (arrival == ReportTable::Arrival::kTaken) wake_();
  return arrival != ReportTable::Arrival::kGap;
}

void ReportRelay::CatchUp(const RankKey& key) {
  MutexLock lock(mu_);
  auto it = logs_.find(key);
  while (it != logs_.end()) {
    const std::shared_ptr<Cursor> cursor = it->second.arrived;
    lock.Unlock();
    const std::vector<Report> reports = cursor->Read();
    lock.Lock();
    it = logs_.find(key);
    if (reports.empty()) break;
    table_.Logged(key, reports);
  }
  lock.Unlock();
  wake_();
}

void ReportRelay::Append(const RankKey& key, Report report) {
  std::optional<Report> numbered;
  RunFolder folder("");
  {
    const MutexLock lock(mu_);
    numbered = table_.Numbered(key, std::move(report));
    if (!numbered.has_value()) return;
    folder = logs_.at(key).folder;
  }
  const absl::Status logged = AppendToLog(folder.reports(), *numbered);
  bool taken = false;
  {
    const MutexLock lock(mu_);
    taken = table_.Own(key, *numbered, logged.ok());
  }
  if (!logged.ok()) {
    spdlog::error("report {}: {}", taken ? "kept in memory only" : "lost", logged.ToString());
  }
  wake_();
}

void ReportRelay::End(const RankKey& key, bool stopped) {
  {
    const MutexLock lock(mu_);
    table_.End(key, stopped);
  }
  wake_();
}

std::optional<RankExit> ReportRelay::Exit(const RankKey& key) const {
  const MutexLock lock(mu_);
  return table_.Exit(key);
}

std::optional<ReportRelay::Report> ReportRelay::Next() {
  MutexLock lock(mu_);
  ReportTable::Missing missing;
  while (true) {
    ReportTable::Turn turn = table_.Next(missing);
    if (!turn.read.has_value()) return std::move(turn.report);
    Log& log = logs_.at(*turn.read);
    if (log.resent == nullptr) {
      log.resent = std::make_shared<Cursor>(log.folder.reports(), log.trouble_logged);
    }
    const std::shared_ptr<Cursor> cursor = log.resent;
    lock.Unlock();
    const std::vector<Report> reports = cursor->Read();
    lock.Lock();
    if (reports.empty()) {
      missing[*turn.read] = turn.sequence;
    } else {
      table_.Fetched(*turn.read, reports);
    }
  }
}

bool ReportRelay::Rewind(const RankKey& key, int64_t acked_sequence) {
  {
    const MutexLock lock(mu_);
    if (!table_.Rewind(key, acked_sequence)) return false;
    logs_.at(key).resent.reset();  // the next read may be earlier in the log
  }
  Acked(key, acked_sequence);
  wake_();
  return true;
}

void ReportRelay::Pause() {
  const MutexLock lock(mu_);
  table_.Pause();
}

RunFolder ReportRelay::ForgetLocked(const RankKey& key) {
  const auto it = logs_.find(key);
  RunFolder folder = std::move(it->second.folder);
  logs_.erase(it);
  return folder;
}

void ReportRelay::Acked(const RankKey& key, int64_t sequence) {
  RunFolder done("");
  {
    const MutexLock lock(mu_);
    if (!table_.Acked(key, sequence)) return;
    done = ForgetLocked(key);
  }
  const absl::Status status = done.MarkDone();
  if (!status.ok()) spdlog::warn("rank not marked done: {}", status.ToString());
}

void ReportRelay::Drop(const RankKey& key) {
  RunFolder folder("");
  {
    const MutexLock lock(mu_);
    if (!table_.Drop(key)) return;
    folder = ForgetLocked(key);
  }
  const absl::Status status = folder.MarkDone();
  if (!status.ok()) spdlog::warn("rank not marked done: {}", status.ToString());
}

std::vector<HeldRank> ReportRelay::Held() {
  const MutexLock lock(mu_);
  return table_.Held();
}

bool ReportRelay::Idle() const {
  const MutexLock lock(mu_);
  return table_.Idle();
}

}  // namespace stretto::daemon
