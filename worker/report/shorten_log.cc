// SPDX-License-Identifier: Apache-2.0

// Reads the log twice: to see whether rare reports fit, and to copy what stays. A report that
// follows dropped ones counts them, also those that it counted before.

#include "worker/report/shorten_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "proto/reporting/dropped_reports.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/report/record_file.h"
#include "worker/report/report_log.h"

namespace stretto {
namespace {

using v1alpha1::RankReport;

constexpr int64_t kWriteBytes = int64_t{1} << 20;

enum class Kind { kOnce, kRare, kStep };

class Kinds {
 public:
  Kind Of(const RankReport& report) {
    if (report.has_prepared() || report.has_first_operation() || report.has_profile())
      return Kind::kOnce;
    if (!report.has_step()) return Kind::kRare;
    if (!std::exchange(had_step_, true)) return Kind::kOnce;
    const v1alpha1::StepReport& step = report.step();
    return step.has_evaluation() || step.update_skipped() || step.norm_not_finite() ? Kind::kRare
                                                                                    : Kind::kStep;
  }

 private:
  bool had_step_ = false;
};

// Calls `visit(report, begin, end)` for every report, with its bytes in the file.
template <class Visit>
absl::Status ForEach(const std::string& path, Visit visit) {
  ReportReader reader(path);
  while (true) {
    const int64_t begin = reader.offset();
    ASSIGN_OR_RETURN(const std::vector<RankReport> one, reader.ReadNew(1));
    if (one.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(visit(one.front(), begin, reader.offset()));
  }
}

absl::Status Copy(const std::string& path, int64_t older, bool keeps_rare, ShortenedLog* shorter,
                  const std::string& name) {
  Kinds kinds;
  v1alpha1::DroppedReports dropped;
  std::string records;
  const auto write = [&] {
    RETURN_IF_ERROR(WriteRecords(shorter->file.get(), shorter->size, records, name));
    shorter->size += static_cast<int64_t>(records.size());
    records.clear();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEach(path, [&](RankReport report, int64_t begin, int64_t) {
    const Kind kind = kinds.Of(report);
    if (begin < older && (kind == Kind::kStep || (kind == Kind::kRare && !keeps_rare))) {
      Drop(report, &dropped);
      return absl::OkStatus();
    }
    Precede(&dropped, &report);
    AppendRecord(report.SerializeAsString(), &records);
    return static_cast<int64_t>(records.size()) < kWriteBytes ? absl::OkStatus() : write();
  }));
  return write();
}

}  // namespace

absl::StatusOr<ShortenedLog> ShortenLog(const std::string& path, int64_t size, int64_t max_bytes) {
  const int64_t older = size - max_bytes / 2;
  int64_t rare_bytes = 0;
  Kinds kinds;
  RETURN_IF_ERROR(ForEach(path, [&](const RankReport& report, int64_t begin, int64_t end) {
    if (begin < older && kinds.Of(report) == Kind::kRare) rare_bytes += end - begin;
    return absl::OkStatus();
  }));

  const std::string name = absl::StrCat(path, ".new");
  RETURN_IF_ERROR(RemoveTree(name));  // of a process that was killed
  ShortenedLog shorter;
  ASSIGN_OR_RETURN(shorter.file, OpenFile(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0644));
  absl::Status status = Copy(path, older, rare_bytes <= max_bytes / 4, &shorter, name);
  if (status.ok() && ::fsync(shorter.file.get()) != 0)
    status = ErrnoStatus(errno, absl::StrCat("fsync ", name));
  if (status.ok()) status = RenameFile(name, path);
  if (!status.ok()) {
    RemoveTree(name).IgnoreError();
    return status;
  }
  return shorter;
}

}  // namespace stretto
