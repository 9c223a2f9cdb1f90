// SPDX-License-Identifier: Apache-2.0
#include "worker/report/report_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/report/record_file.h"

namespace stretto {

using v1alpha1::RankReport;

absl::Status ReportReader::OpenFile() {
  if (file_.valid()) return absl::OkStatus();
  file_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file_.valid()) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("open ", path_));
}

absl::StatusOr<std::vector<RankReport>> ReportReader::ReadNew(int64_t limit) {
  std::vector<RankReport> reports;
  if (absl::Status status = OpenFile(); !status.ok()) {
    if (absl::IsNotFound(status)) return reports;
    return status;
  }
  std::string message;
  while (static_cast<int64_t>(reports.size()) < limit) {
    absl::Status status = ReadRecord(file_.get(), offset_, path_, &message);
    RankReport report;
    if (status.ok() && !report.ParseFromString(message)) {
      status = BrokenRecord(path_, offset_, "message", "other bytes", "a RankReport");
    } else if (status.ok() && report.sequence() != last_sequence_ + 1) {
      status = BrokenRecord(path_, offset_, "sequence", absl::StrCat(report.sequence()),
                            absl::StrCat(last_sequence_ + 1));
    }
    if (absl::IsOutOfRange(status)) break;
    if (!status.ok()) {
      if (reports.empty()) return status;
      break;  // returns the whole ones first; the next call meets the error again
    }
    offset_ += kRecordHeaderBytes + static_cast<int64_t>(message.size());
    last_sequence_ = report.sequence();
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

absl::StatusOr<ReportLog> ReportLog::Open(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
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
