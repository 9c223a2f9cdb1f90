#include "worker/trainer/report/report_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto {
namespace {

using v1alpha1::RankReport;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read and written in place");

struct RecordHeader {
  uint32_t length = 0;
  uint32_t crc32c = 0;
};
constexpr int64_t kHeaderBytes = sizeof(RecordHeader);
// A report carries at most a step's ledger or a profile.
constexpr int64_t kMaxMessageBytes = int64_t{16} << 20;

absl::Status ReadAt(int fd, int64_t offset, int64_t count, void* out, const std::string& path) {
  char* at = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t n = ::pread(fd, at, static_cast<size_t>(count), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    // The file was cut back by its writer between fstat and here.
    if (n == 0) return absl::OutOfRangeError(absl::StrCat(path, ": ends at byte ", offset));
    at += n;
    offset += n;
    count -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SizeOf(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  return int64_t{info.st_size};
}

// A machine that dies may leave a file longer than what reached the disk.
absl::StatusOr<bool> IsZeroToEnd(int fd, int64_t offset, int64_t size, const std::string& path) {
  std::string block(size_t{64} << 10, '\0');
  while (offset < size) {
    const int64_t count = std::min<int64_t>(size - offset, static_cast<int64_t>(block.size()));
    RETURN_IF_ERROR(ReadAt(fd, offset, count, block.data(), path));
    if (block.find_first_not_of('\0') < static_cast<size_t>(count)) return false;
    offset += count;
  }
  return true;
}

absl::Status Broken(const std::string& path, int64_t offset, absl::string_view what,
                    absl::string_view found, absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(path, ": ", what, " of the record at byte ", offset,
                                          ": found ", found, ", expected ", expected));
}

// Reads the record at `offset`. OutOfRange: from here on there is no whole record.
absl::Status ReadRecord(int fd, int64_t offset, const std::string& path, std::string* message) {
  ASSIGN_OR_RETURN(const int64_t size, SizeOf(fd, path));
  const absl::Status torn = absl::OutOfRangeError(absl::StrCat(path, ": torn at byte ", offset));
  if (size - offset < kHeaderBytes) return torn;
  RecordHeader header;
  RETURN_IF_ERROR(ReadAt(fd, offset, kHeaderBytes, &header, path));
  if (header.length == 0 || header.length > kMaxMessageBytes) {
    ASSIGN_OR_RETURN(const bool zero, IsZeroToEnd(fd, offset, size, path));
    if (zero) return torn;
    return Broken(path, offset, "length", absl::StrCat(header.length),
                  absl::StrCat("1 to ", kMaxMessageBytes));
  }
  const int64_t end = offset + kHeaderBytes + header.length;
  if (end > size) return torn;
  message->resize(header.length);
  RETURN_IF_ERROR(ReadAt(fd, offset + kHeaderBytes, header.length, message->data(), path));
  const uint32_t crc = Crc32c(*message);
  if (crc == header.crc32c) return absl::OkStatus();
  if (end == size) return torn;
  return Broken(path, offset, "crc32c", absl::StrCat(crc), absl::StrCat(header.crc32c));
}

}  // namespace

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
      status = Broken(path_, offset_, "message", "other bytes", "a RankReport");
    } else if (status.ok() && report.sequence() != last_sequence_ + 1) {
      status = Broken(path_, offset_, "sequence", absl::StrCat(report.sequence()),
                      absl::StrCat(last_sequence_ + 1));
    }
    if (absl::IsOutOfRange(status)) break;
    if (!status.ok()) {
      if (reports.empty()) return status;
      break;  // what was whole goes out first; the next call meets the error again
    }
    offset_ += kHeaderBytes + static_cast<int64_t>(message.size());
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
  std::string message = report->SerializeAsString();
  if (static_cast<int64_t>(message.size()) > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": found a report of ", message.size(),
                                                   " bytes, expected at most ", kMaxMessageBytes));
  }
  const RecordHeader header{static_cast<uint32_t>(message.size()), Crc32c(message)};
  message.insert(0, reinterpret_cast<const char*>(&header), sizeof(header));
  if (absl::Status status = WriteAll(file_.get(), message, path_); !status.ok()) {
    // Cutting back needs no space. Should it fail, readers and the next Open see a torn record.
    if (::ftruncate(file_.get(), size_) != 0) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; truncate to ", size_,
                                                      " bytes: ", std::strerror(errno)));
    }
    return status;
  }
  size_ += static_cast<int64_t>(message.size());
  last_sequence_ = report->sequence();
  return absl::OkStatus();
}

absl::Status ReportLog::Sync() {
  if (::fsync(file_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path_));
  return absl::OkStatus();
}

}  // namespace stretto
