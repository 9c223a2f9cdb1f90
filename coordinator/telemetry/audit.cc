// SPDX-License-Identifier: Apache-2.0

// The file is opened for every line, so nothing is buffered here, a file that somebody else has
// renamed is left alone, and a disk that was full needs no repair. A line costs a few microseconds,
// little beside the commit of the call that it is about.

#include "coordinator/telemetry/audit.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto::telemetry {
namespace {

constexpr size_t kMaxField = 256;

// Makes one word of the line: nothing in it can be taken for the start of the next field.
std::string Field(absl::string_view text) {
  if (text.empty()) return "-";
  const std::string escaped =
      absl::StrReplaceAll(Escaped(Prefix(text, kMaxField)), {{"\"", "\\x22"}});
  return escaped.find_first_of(" =") == std::string::npos ? escaped : "\"" + escaped + "\"";
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

absl::StatusOr<FileDescriptor> OpenForAppending(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, int64_t max_bytes,
                                                         Telemetry& telemetry) {
  if (!path.empty()) RETURN_IF_ERROR(OpenForAppending(path).status());
  return std::unique_ptr<AuditLog>(new AuditLog(path, max_bytes, telemetry));
}

void AuditLog::Write(const AuditEntry& entry, absl::Time now) {
  if (path_.empty()) return;
  const std::string line =
      absl::StrCat(TimeText(now), " caller=", Field(entry.caller),
                   entry.token.empty() ? "" : absl::StrCat(" token=", Field(entry.token)),
                   " peer=", Field(entry.peer), " method=", Field(entry.method),
                   " resource=", Field(entry.resource), " request_id=", Field(entry.request_id),
                   " result=", Field(entry.result),
                   entry.left_out == 0 ? "" : absl::StrCat(" left_out=", entry.left_out));
  const MutexLock lock(mu_);
  std::string before;
  if (missing_ > 0) {
    before = absl::StrCat(TimeText(now), " missing=", missing_,
                          ": lines that could not be written are in the daemon's log\n");
  }
  const absl::Status status = Append(absl::StrCat(before, line, "\n"));
  if (status.ok()) {
    missing_ = 0;
    return;
  }
  ++missing_;
  telemetry_.AuditLineLost();
  spdlog::error("audit line not written: {}; it is: {}", status.ToString(), line);
}

void AuditLog::WriteRefused(AuditEntry entry, absl::Time now, absl::Duration steady) {
  const std::optional<int64_t> left_out = refused_.Admit(entry.caller, steady);
  if (!left_out.has_value()) return;
  entry.left_out = *left_out;
  Write(entry, now);
}

void AuditLog::WriteLeftOut(absl::Time now, absl::Duration steady) {
  for (auto& [caller, left_out] : refused_.TakeLeftOut(steady)) {
    Write({.caller = std::move(caller),
           .peer = "",
           .method = "",
           .resource = "",
           .request_id = "",
           .result = "",
           .left_out = left_out},
          now);
  }
}

absl::Status AuditLog::Append(const std::string& line) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenForAppending(path_));
  struct stat before = {};
  if (fstat(file.get(), &before) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
  if (before.st_size > 0 && before.st_size + static_cast<int64_t>(line.size()) > max_bytes_) {
    // A file that cannot be renamed grows further, which is better than to end.
    if (const absl::Status status = Rotate(); !status.ok()) {
      spdlog::error("audit log not rotated: {}", status.ToString());
    } else {
      ASSIGN_OR_RETURN(file, OpenForAppending(path_));
      if (fstat(file.get(), &before) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
    }
  }
  const absl::Status status = WriteAll(file.get(), line, path_);
  if (!status.ok()) {
    // Cuts off the part of a line that fitted. It fails where there is no end to cut, as of a pipe.
    [[maybe_unused]] const int cut = ftruncate(file.get(), before.st_size);
  }
  return status;
}

absl::Status AuditLog::Rotate() {
  struct stat found = {};
  if (lstat(path_.c_str(), &found) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
  if (!S_ISREG(found.st_mode)) return absl::OkStatus();  // a device or a link: /dev/stderr
  const auto older = [this](int number) {
    return number == 0 ? path_ : absl::StrCat(path_, ".", number);
  };
  for (int number = kOlder; number > 0; --number) {
    const std::string from = older(number - 1), to = older(number);
    if (rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto::telemetry
