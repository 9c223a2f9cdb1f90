// SPDX-License-Identifier: Apache-2.0
#pragma once
// The newest steps of a rank, operation by operation, in its run folder:
//
//   trace-program.bin  the operations of every step (TraceProgram)
//   trace.old.bin      steps before those of
//   trace.bin          the newest ones (TraceStep)
//
// All three consist of records (record_file.h) of a TraceRecord. trace.bin is renamed to
// trace.old.bin when it has half of the bytes that may be kept, so at least that half is always
// there. The trainer writes; its daemon reads at the same time, and after the trainer's end.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto {

namespace v1alpha1 {
class TraceRecord;
}

// About 1,000 steps of a small model, 20 of a large one.
inline constexpr int64_t kTraceBytes = int64_t{8} << 20;

// Not thread-safe.
class TraceLog {
 public:
  // Deletes the files of an earlier process and writes the program. Errors: ResourceExhausted (disk
  // full), those of ErrnoStatus.
  static absl::StatusOr<TraceLog> Create(const std::string& folder,
                                         const std::vector<v1alpha1::TraceRecord>& program,
                                         int64_t max_bytes = kTraceBytes);

  // Adds a record of the current step, without writing yet. Once warm it allocates nothing.
  void Add(const v1alpha1::TraceRecord& record);

  // Writes the records added since the last call, in one write. On an error the step is lost, the
  // file ends with the last whole step, and the next step may be tried. Errors: those of Create.
  absl::Status Commit();

 private:
  TraceLog(std::string folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  absl::Status StartFile();

  std::string folder_;
  int64_t max_bytes_;
  FileDescriptor file_;  // trace.bin
  int64_t size_ = 0;     // of it
  std::string message_, pending_;
};

// Reads the program, then the steps in [first_step, last_step] in order; 0 leaves that side open.
// Not thread-safe.
class TraceReader {
 public:
  // Errors: NotFound if nothing is recorded there.
  static absl::StatusOr<TraceReader> Open(const std::string& folder, int64_t first_step,
                                          int64_t last_step);

  // Returns the next record, or nullopt after the last. If a file is damaged or torn, its remaining
  // steps are skipped and a record with a warning reports it. Errors: NotFound (no step in the
  // range is kept; names those that are), DataLoss (the program is damaged), those of ErrnoStatus.
  absl::StatusOr<std::optional<v1alpha1::TraceRecord>> Next();

 private:
  struct File {
    std::string path;
    FileDescriptor descriptor;
    int64_t offset = 0;
  };

  TraceReader(int64_t first_step, int64_t last_step)
      : first_step_(first_step), last_step_(last_step) {}
  bool Wanted(int64_t step);
  // Returns nullopt at the end of this file.
  absl::StatusOr<std::optional<v1alpha1::TraceRecord>> NextOf(File& file);
  absl::Status NoneKept() const;

  int64_t first_step_, last_step_;
  std::vector<File> files_;  // the program, then steps
  size_t at_ = 0;
  int64_t first_kept_ = 0, last_kept_ = 0;  // of what was read; 0: none
  bool found_ = false;                      // a step in the range
};

}  // namespace stretto
