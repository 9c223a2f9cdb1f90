// SPDX-License-Identifier: Apache-2.0

// The writer collects the records of a step in memory and appends them in one write; when trace.bin
// is large enough it becomes trace.old.bin. The reader opens both files so that no such rename
// occurs in between, and reads up to their ends at that time.

#include "worker/report/trace_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/report/record_file.h"

namespace stretto {
namespace {

using v1alpha1::TraceRecord;

std::string ProgramPath(const std::string& folder) { return folder + "/trace-program.bin"; }
std::string OldPath(const std::string& folder) { return folder + "/trace.old.bin"; }
std::string NewPath(const std::string& folder) { return folder + "/trace.bin"; }

absl::Status Delete(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("delete ", path));
}

absl::StatusOr<FileDescriptor> OpenToRead(const std::string& path) {
  absl::StatusOr<FileDescriptor> file = OpenFile(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) return FileDescriptor();
  return file;
}

// Whether the file still has this name, or neither exists.
bool HasName(const FileDescriptor& file, const std::string& path) {
  struct stat opened, named;
  if (::stat(path.c_str(), &named) != 0) return !file.valid();
  return file.valid() && ::fstat(file.get(), &opened) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

TraceRecord Warning(absl::string_view text) {
  TraceRecord record;
  record.set_warning(std::string(text));
  return record;
}

}  // namespace

// ---- writing

absl::StatusOr<TraceLog> TraceLog::Create(const std::string& folder,
                                          const std::vector<TraceRecord>& program,
                                          int64_t max_bytes) {
  RETURN_IF_ERROR(Delete(OldPath(folder)));
  RETURN_IF_ERROR(Delete(NewPath(folder)));
  std::string records;
  for (const TraceRecord& record : program) AppendRecord(record.SerializeAsString(), &records);
  RETURN_IF_ERROR(WriteFileAtomic(ProgramPath(folder), records));
  TraceLog log(folder, max_bytes);
  RETURN_IF_ERROR(log.StartFile());
  return log;
}

absl::Status TraceLog::StartFile() {
  const std::string path = NewPath(folder_);
  size_ = 0;
  file_ = FileDescriptor();
  ASSIGN_OR_RETURN(file_, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644));
  return absl::OkStatus();
}

void TraceLog::Add(const TraceRecord& record) {
  record.SerializeToString(&message_);
  AppendRecord(message_, &pending_);
}

absl::Status TraceLog::Commit() {
  const int64_t bytes = static_cast<int64_t>(pending_.size());
  absl::Status status;
  if (size_ > 0 && size_ + bytes > max_bytes_ / 2) {
    const std::string path = NewPath(folder_);
    if (::rename(path.c_str(), OldPath(folder_).c_str()) != 0 && errno != ENOENT) {
      status = ErrnoStatus(errno, absl::StrCat("rename ", path));
    } else {
      status = StartFile();
    }
  } else if (!file_.valid()) {
    status = StartFile();
  }
  if (status.ok()) status = WriteRecords(file_.get(), size_, pending_, NewPath(folder_));
  if (status.ok()) size_ += bytes;
  pending_.clear();
  return status;
}

// ---- reading

absl::StatusOr<TraceReader> TraceReader::Open(const std::string& folder, int64_t first_step,
                                              int64_t last_step) {
  TraceReader reader(first_step, last_step);
  ASSIGN_OR_RETURN(FileDescriptor program, OpenToRead(ProgramPath(folder)));
  if (!program.valid()) return absl::NotFoundError("no step is recorded yet");
  FileDescriptor older, newer;
  do {  // until no rename occurred in between
    ASSIGN_OR_RETURN(older, OpenToRead(OldPath(folder)));
    ASSIGN_OR_RETURN(newer, OpenToRead(NewPath(folder)));
  } while (!HasName(older, OldPath(folder)));
  reader.files_.push_back({ProgramPath(folder), std::move(program)});
  if (older.valid()) reader.files_.push_back({OldPath(folder), std::move(older)});
  if (newer.valid()) reader.files_.push_back({NewPath(folder), std::move(newer)});
  return reader;
}

bool TraceReader::Wanted(int64_t step) {
  if (first_kept_ == 0) first_kept_ = step;
  last_kept_ = step;
  const bool wanted = step >= first_step_ && (last_step_ == 0 || step <= last_step_);
  found_ = found_ || wanted;
  return wanted;
}

absl::StatusOr<std::optional<TraceRecord>> TraceReader::NextOf(File& file) {
  std::string message;
  TraceRecord record;
  while (true) {
    RETURN_IF_ERROR(ReadRecord(file.descriptor.get(), file.offset, file.path, &message));
    if (!record.ParseFromString(message)) {
      return BrokenRecord(file.path, file.offset, "message", "other bytes", "a TraceRecord");
    }
    file.offset += kRecordHeaderBytes + static_cast<int64_t>(message.size());
    if (!record.has_step() || Wanted(record.step().step())) return record;
  }
}

absl::StatusOr<std::optional<TraceRecord>> TraceReader::Next() {
  for (; at_ < files_.size(); ++at_) {
    File& file = files_[at_];
    absl::StatusOr<std::optional<TraceRecord>> next = NextOf(file);
    if (next.ok()) return next;
    if (absl::IsOutOfRange(next.status())) {
      ASSIGN_OR_RETURN(const int64_t size, FileSize(file.descriptor.get(), file.path));
      if (file.offset >= size) continue;
    } else if (!absl::IsDataLoss(next.status())) {
      return next.status();
    }
    if (at_ == 0) return absl::DataLossError(next.status().message());
    ++at_;
    return Warning(absl::StrCat(next.status().message(), "; what follows in it is left out"));
  }
  if (!found_) return NoneKept();
  return std::nullopt;
}

absl::Status TraceReader::NoneKept() const {
  if (first_kept_ == 0) return absl::NotFoundError("no step is recorded yet");
  const std::string expected = last_step_ == 0 ? absl::StrCat("some of ", first_step_, " or later")
                               : last_step_ == first_step_
                                   ? absl::StrCat("step ", last_step_)
                                   : absl::StrCat("some of ", first_step_, " to ", last_step_);
  return absl::NotFoundError(
      absl::StrCat("found steps ", first_kept_, " to ", last_kept_, " kept, expected ", expected));
}

}  // namespace stretto
