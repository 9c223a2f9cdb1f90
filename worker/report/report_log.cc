// SPDX-License-Identifier: Apache-2.0

// The reader follows the file record by record and checks that sequence numbers have no gap. Where
// a record is broken it continues with the next whole report and returns warnings for those between,
// a batch at a time. The writer continues behind the last whole report.

#include "worker/report/report_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/report/record_file.h"

namespace stretto {
namespace {

// A report is shorter nowhere: its header, and at least an epoch and a sequence number.
constexpr int64_t kLeastRecordBytes = kRecordHeaderBytes + 4;
// Reports that may have been cut out of the file, bytes and all.
constexpr int64_t kMaxLostWithoutTrace = 1'000;

// The greatest number of reports that can have been lost where this number of bytes is damaged. A
// sequence number that is further on is no number of ours: a few bytes would otherwise stand for
// millions of warnings.
int64_t MaxLost(int64_t damaged_bytes) {
  return kMaxLostWithoutTrace + damaged_bytes / kLeastRecordBytes;
}

}  // namespace

using v1alpha1::RankReport;

absl::Status ReportReader::OpenFile() {
  if (file_.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(file_, stretto::OpenFile(path_, O_RDONLY));
  return absl::OkStatus();
}

absl::Status ReportReader::ReadOne(RankReport* report, int64_t* end) {
  std::string message;
  RETURN_IF_ERROR(ReadRecord(file_.get(), offset_, path_, &message));
  if (!report->ParseFromString(message)) {
    return BrokenRecord(path_, offset_, "message", "other bytes", "a RankReport");
  }
  if (report->sequence() != last_sequence_ + 1) {
    return BrokenRecord(path_, offset_, "sequence", absl::StrCat(report->sequence()),
                        absl::StrCat(last_sequence_ + 1));
  }
  *end = offset_ + kRecordHeaderBytes + static_cast<int64_t>(message.size());
  return absl::OkStatus();
}

absl::Status ReportReader::SkipDamage(const absl::Status& broken) {
  for (int64_t at = offset_;; ++at) {
    ASSIGN_OR_RETURN(at, FindRecord(file_.get(), at, path_));
    std::string message;
    RETURN_IF_ERROR(ReadRecord(file_.get(), at, path_, &message));
    RankReport next;
    // A message may contain the bytes of a record, so it must make sense as a report, too.
    if (!next.ParseFromString(message) || next.sequence() <= last_sequence_) continue;
    const int64_t lost = next.sequence() - last_sequence_ - 1;
    if (lost > MaxLost(at - offset_)) continue;
    RankReport warning;
    warning.set_job_id(next.job_id());
    warning.set_job_uid(next.job_uid());
    warning.set_epoch(next.epoch());
    warning.set_rank(next.rank());
    warning.mutable_warning()->set_condition("LogIntact");
    warning.mutable_warning()->set_reason("LogDamaged");
    warning.mutable_warning()->set_message(
        absl::StrCat(lost, lost == 1 ? " report" : " reports", " lost: ", broken.message()));
    lost_ = lost;
    instead_ = warning.SerializeAsString();
    damage_.Update(absl::DataLossError(broken.message()));
    offset_ = at;
    return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<RankReport>> ReportReader::ReadNew(int64_t limit) {
  std::vector<RankReport> reports;
  if (absl::Status status = OpenFile(); !status.ok()) {
    if (absl::IsNotFound(status)) return reports;
    return status;
  }
  while (std::ssize(reports) < limit) {
    RankReport report;
    if (lost_ > 0) {
      --lost_;
      STRETTO_CHECK(report.ParseFromString(instead_));
      report.set_sequence(++last_sequence_);
      reports.push_back(std::move(report));
      continue;
    }
    int64_t end = 0;
    absl::Status status = ReadOne(&report, &end);
    if (status.ok()) {
      offset_ = end;
      last_sequence_ = report.sequence();
      reports.push_back(std::move(report));
      continue;
    }
    // A damaged length makes a record look torn, so only the bytes behind it show which it is.
    if (absl::IsOutOfRange(status) || absl::IsDataLoss(status)) {
      status = SkipDamage(status);
    }
    if (absl::IsOutOfRange(status)) break;
    RETURN_IF_ERROR(status);
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

absl::StatusOr<ReportLog> ReportLog::Open(const std::string& path) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(path, O_WRONLY | O_CREAT | O_APPEND, 0644));
  ReportReader reader(path);
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<RankReport> reports, reader.ReadNew());
    if (reports.empty()) break;
  }
  if (::ftruncate(file.get(), reader.offset()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  }
  return ReportLog(path, std::move(file), reader.offset(), reader.last_sequence());
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
  return absl::OkStatus();
}

absl::Status ReportLog::Sync() {
  if (::fsync(file_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path_));
  return absl::OkStatus();
}

}  // namespace stretto
