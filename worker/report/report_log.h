// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's reports on disk, in the order of their sequence numbers, until the coordinator has
// acknowledged them. Append-only; a record is u32 length, u32 CRC-32C of the message, the
// serialised RankReport. The trainer writes; its daemon reads at the same time, and appends the
// last report (RankExit) when the trainer is dead. There are never two writers at once.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto {

namespace v1alpha1 {
class RankReport;
}

// Reads a log from its start, even while it grows. Not thread-safe.
class ReportReader {
 public:
  explicit ReportReader(std::string path) : path_(std::move(path)) {}

  // Returns the reports written since the last call, at most `limit` of them. Empty if there are
  // none: there is no file yet, or the last record is not (yet) whole. In place of reports that
  // cannot be read any more, because the file is damaged before the next whole record, it returns
  // a RankWarning each (condition LogIntact, reason LogDamaged), so that sequence numbers have no
  // gaps. There are no more of them than reports fit into the damaged bytes, and a thousand: a
  // record whose number is further on is damage itself. Errors: those of ErrnoStatus.
  absl::StatusOr<std::vector<v1alpha1::RankReport>> ReadNew(int64_t limit = 1024);

  // The first damage found: names file, byte, found, expected. OK: none so far.
  const absl::Status& damage() const { return damage_; }

  int64_t offset() const { return offset_; }  // bytes of whole records read
  int64_t last_sequence() const { return last_sequence_; }

 private:
  absl::Status OpenFile();
  // Reads the next report, if it is whole and in sequence. Errors: OutOfRange, DataLoss.
  absl::Status ReadOne(v1alpha1::RankReport* report, int64_t* end);
  // Continues behind `broken` with the next whole report, and notes how many were lost before it.
  absl::Status SkipDamage(const absl::Status& broken);

  std::string path_;
  FileDescriptor file_;
  int64_t offset_ = 0;
  int64_t last_sequence_ = 0;
  int64_t lost_ = 0;     // reports that are still to be replaced by warnings
  std::string instead_;  // such a warning, serialised, without its number
  absl::Status damage_;
};

// Returns all reports with a sequence number above `sequence`. Errors: those of ReadNew.
absl::StatusOr<std::vector<v1alpha1::RankReport>> ReadAfter(const std::string& path,
                                                            int64_t sequence);

// Not thread-safe.
class ReportLog {
 public:
  // Creates the file or continues it: bytes behind the last whole record (a crash while writing)
  // are cut off. Errors: those of ErrnoStatus.
  static absl::StatusOr<ReportLog> Open(const std::string& path);

  // Sets `report->sequence` to the next number and appends it in one write. If the process is
  // killed, no appended report is lost; if the machine fails, those that were not synced. On an
  // error the file ends with the last whole record, the number is not used, and Append may be
  // retried. Errors: ResourceExhausted (disk full), those of ErrnoStatus.
  absl::Status Append(v1alpha1::RankReport* report);

  // fsync.
  absl::Status Sync();

  int64_t last_sequence() const { return last_sequence_; }

 private:
  ReportLog(std::string path, FileDescriptor file, int64_t size, int64_t last_sequence)
      : path_(std::move(path)),
        file_(std::move(file)),
        size_(size),
        last_sequence_(last_sequence) {}

  std::string path_;
  FileDescriptor file_;
  int64_t size_;
  int64_t last_sequence_;
};

}  // namespace stretto
