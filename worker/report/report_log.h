// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's reports on disk, in the order of their sequence numbers, from which a coordinator that
// starts again reads what happened. A record is u32 length, u32 CRC-32C of the message, the
// serialised RankReport. The trainer writes; its daemon reads at the same time, and appends the
// last report (RankExit) when the trainer is dead. There are never two writers at once.
//
// The log keeps a bounded number of bytes. At the bound the writer replaces the file by a shorter
// one: the newer half, and of the older one what no other report repeats. Steps that are dropped
// are counted by the report after them, with the sum of their ledgers (RankReport.dropped).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "proto/base/node_limits.h"

namespace stretto {

namespace v1alpha1 {
class RankReport;
}

// Reads a log from its start, even while it grows and is replaced. Not thread-safe.
class ReportReader {
 public:
  explicit ReportReader(std::string path) : path_(std::move(path)) {}

  // Returns the reports written since the last call, at most `limit` of them. Empty if there are
  // none: there is no file yet, or the last record is not (yet) whole. In place of reports that
  // cannot be read any more, because the file is damaged before the next whole record, it returns
  // one RankWarning (condition LogIntact, reason LogDamaged), which counts the others as dropped,
  // so that sequence numbers have no gaps. Errors: those of ErrnoStatus.
  absl::StatusOr<std::vector<v1alpha1::RankReport>> ReadNew(int64_t limit = 1024);

  // The first damage found: names file, byte, found, expected. OK: none so far.
  const absl::Status& damage() const { return damage_; }

  int64_t offset() const { return offset_; }  // bytes of whole records read, of the present file
  int64_t last_sequence() const { return last_sequence_; }

 private:
  absl::Status OpenFile();
  // Opens the file that the writer has put in the place of ours, if it has, and returns whether.
  absl::StatusOr<bool> OpenReplacement();
  // Reads the next report, if it is whole and in sequence. Errors: OutOfRange, DataLoss.
  absl::Status ReadOne(v1alpha1::RankReport* report);
  // Continues with the next whole report. Returns the warning in place of those before it that are
  // lost, if any are.
  absl::StatusOr<std::optional<v1alpha1::RankReport>> SkipDamage(const absl::Status& broken);

  std::string path_;
  FileDescriptor file_;
  int64_t offset_ = 0;
  int64_t last_sequence_ = 0;
  bool again_ = false;  // the file was replaced, and nothing of it is new so far
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
  static absl::StatusOr<ReportLog> Open(const std::string& path,
                                        int64_t max_bytes = limits::kReportLogBytes.value);

  // Sets `report->sequence` to the next number and appends it in one write. If the process is
  // killed, no appended report is lost; if the machine fails, those that were not synced. On an
  // error the file ends with the last whole record, the number is not used, and Append may be
  // retried. A log that is longer than its bound is shortened; if that fails, which is logged, it
  // is tried again when it has grown by another eighth. Errors: ResourceExhausted (disk full),
  // those of ErrnoStatus.
  absl::Status Append(v1alpha1::RankReport* report);

  // fsync.
  absl::Status Sync();

  int64_t last_sequence() const { return last_sequence_; }

 private:
  ReportLog(std::string path, int64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}
  absl::Status Shorten();

  std::string path_;
  int64_t max_bytes_;
  FileDescriptor file_;
  int64_t size_ = 0;
  int64_t last_sequence_ = 0;
  int64_t shorten_at_ = max_bytes_;
};

}  // namespace stretto
