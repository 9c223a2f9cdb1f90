// SPDX-License-Identifier: Apache-2.0

// The reader follows the file record by record and checks that sequence numbers have no gap. Where
// a record is broken it continues with the next whole report and returns a warning for those
// between. At the end it looks whether the path has another file by now, whose older reports it
// skips. The writer continues behind the last whole report; shorten_log.h has what it drops.

#include "worker/report/report_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "proto/reporting/dropped_reports.h"
#include "spdlog/spdlog.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/report/record_file.h"
#include "worker/report/shorten_log.h"

namespace stretto {

using v1alpha1::RankReport;

absl::Status ReportReader::OpenFile() {
  if (file_.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(file_, stretto::OpenFile(path_, O_RDONLY));
  return absl::OkStatus();
}

absl::StatusOr<bool> ReportReader::OpenReplacement() {
  struct stat ours, there;
  if (::fstat(file_.get(), &ours) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
  absl::StatusOr<FileDescriptor> file = stretto::OpenFile(path_, O_RDONLY);
  if (absl::IsNotFound(file.status())) return false;  // removed with its folder
  RETURN_IF_ERROR(file.status());
  if (::fstat(file->get(), &there) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
  if (ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) return false;
  file_ = *std::move(file);
  offset_ = 0;
  again_ = true;
  return true;
}

absl::Status ReportReader::ReadOne(RankReport* report) {
  while (true) {
    std::string message;
    RETURN_IF_ERROR(ReadRecord(file_.get(), offset_, path_, &message));
    if (!report->ParseFromString(message)) {
      return BrokenRecord(path_, offset_, "message", "other bytes", "a RankReport");
    }
    if (const absl::Status numbers = CheckNumbers(*report, kMaxTrainerNumber); !numbers.ok())
      return absl::DataLossError(absl::StrCat(path_, ": ", numbers.message()));
    const bool known = report->sequence() <= last_sequence_;
    const int64_t first = FirstNumber(*report), expected = last_sequence_ + 1;
    if (known ? !again_ : first > expected) {
      return BrokenRecord(path_, offset_, "sequence",
                          absl::StrCat(known ? report->sequence() : first), absl::StrCat(expected));
    }
    offset_ += kRecordHeaderBytes + static_cast<int64_t>(message.size());
    if (known) continue;
    DropOnlyAfter(last_sequence_, report);  // a new file may have dropped what was read of the old
    last_sequence_ = report->sequence();
    again_ = false;
    return absl::OkStatus();
  }
}

absl::StatusOr<std::optional<RankReport>> ReportReader::SkipDamage(const absl::Status& broken) {
  for (int64_t at = offset_;; ++at) {
    ASSIGN_OR_RETURN(at, FindRecord(file_.get(), at, path_));
    std::string message;
    RETURN_IF_ERROR(ReadRecord(file_.get(), at, path_, &message));
    RankReport next;
    // A message may contain the bytes of a record, so it must make sense as a report, too.
    if (!next.ParseFromString(message) || !CheckNumbers(next, kMaxTrainerNumber).ok()) continue;
    if (next.sequence() <= last_sequence_) continue;
    offset_ = at;
    damage_.Update(absl::DataLossError(broken.message()));
    const int64_t lost = FirstNumber(next) - last_sequence_ - 1;
    if (lost <= 0) return std::nullopt;
    RankReport warning;
    warning.set_job_id(next.job_id());
    warning.set_job_uid(next.job_uid());
    warning.set_epoch(next.epoch());
    warning.set_rank(next.rank());
    warning.mutable_warning()->set_condition("LogIntact");
    warning.mutable_warning()->set_reason("LogDamaged");
    warning.mutable_warning()->set_message(
        absl::StrCat(lost, lost == 1 ? " report" : " reports", " lost: ", broken.message()));
    last_sequence_ += lost;
    warning.set_sequence(last_sequence_);
    if (lost > 1) warning.mutable_dropped()->set_reports(lost - 1);
    return warning;
  }
}

absl::StatusOr<std::vector<RankReport>> ReportReader::ReadNew(int64_t limit) {
  std::vector<RankReport> reports;
  if (absl::Status status = OpenFile(); !status.ok()) {
    if (absl::IsNotFound(status)) return reports;
    return status;
  }
  bool replaced = false;  // once in a call, or whoever replaces it for ever would keep us
  while (std::ssize(reports) < limit) {
    RankReport report;
    absl::Status status = ReadOne(&report);
    // A damaged length makes a record look torn, so only the bytes behind it show which it is.
    if (absl::IsOutOfRange(status) || absl::IsDataLoss(status)) {
      absl::StatusOr<std::optional<RankReport>> warning = SkipDamage(status);
      status = warning.status();
      if (warning.ok() && !warning->has_value()) continue;
      if (warning.ok()) report = **std::move(warning);
    }
    if (absl::IsOutOfRange(status)) {
      if (replaced) break;
      ASSIGN_OR_RETURN(replaced, OpenReplacement());
      if (!replaced) break;
      continue;
    }
    RETURN_IF_ERROR(status);
    reports.push_back(std::move(report));
  }
  return reports;
}

absl::StatusOr<std::vector<RankReport>> ReadAfter(const std::string& path, int64_t sequence) {
  ReportReader reader(path);
  std::vector<RankReport> after;
  while (true) {
    ASSIGN_OR_RETURN(std::vector<RankReport> reports, reader.ReadNew());
    if (reports.empty()) return after;
    for (RankReport& report : reports) {
      if (report.sequence() > sequence) after.push_back(std::move(report));
    }
  }
}

absl::StatusOr<ReportLog> ReportLog::Open(const std::string& path, int64_t max_bytes) {
  ReportLog log(path, max_bytes);
  ASSIGN_OR_RETURN(log.file_, OpenFile(path, O_WRONLY | O_CREAT | O_APPEND, 0644));
  ReportReader reader(path);
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<RankReport> reports, reader.ReadNew());
    if (reports.empty()) break;
  }
  log.size_ = reader.offset();
  log.last_sequence_ = reader.last_sequence();
  if (::ftruncate(log.file_.get(), log.size_) != 0) {
    return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  }
  return log;
}

absl::Status ReportLog::Append(RankReport* report) {
  report->set_sequence(last_sequence_ + 1);
  const std::string message = report->SerializeAsString();
  if (static_cast<int64_t>(message.size()) > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": found a report of ", message.size(),
                                                   " bytes, expected at most ", kMaxRecordBytes));
  }
  std::string record;
  AppendRecord(message, &record);
  RETURN_IF_ERROR(WriteRecords(file_.get(), size_, record, path_));
  size_ += static_cast<int64_t>(record.size());
  last_sequence_ = report->sequence();
  if (size_ <= shorten_at_) return absl::OkStatus();
  // The report is in the log, whatever becomes of the older ones.
  if (const absl::Status status = Shorten(); !status.ok())
    spdlog::warn("log of reports not shortened: {}", status.ToString());
  shorten_at_ = std::max(max_bytes_, size_ + max_bytes_ / 8);
  return absl::OkStatus();
}

absl::Status ReportLog::Shorten() {
  ASSIGN_OR_RETURN(ShortenedLog shorter, ShortenLog(path_, size_, max_bytes_));
  file_ = std::move(shorter.file);
  size_ = shorter.size;
  return absl::OkStatus();
}

absl::Status ReportLog::Sync() {
  if (::fsync(file_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path_));
  return absl::OkStatus();
}

}  // namespace stretto
