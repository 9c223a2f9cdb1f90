// SPDX-License-Identifier: Apache-2.0

// Records are read and written in place. A record that is not whole is torn if nothing but zeros
// can follow it, and broken otherwise. The next whole record behind a broken one is found by its
// checksum, byte by byte, because a broken length says nothing about where that begins.

#include "worker/report/record_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read and written in place");

struct RecordHeader {
  uint32_t length = 0;
  uint32_t crc32c = 0;
};
static_assert(sizeof(RecordHeader) == kRecordHeaderBytes);

absl::Status ReadAt(int fd, int64_t offset, int64_t count, void* out, const std::string& path) {
  char* at = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t n = ::pread(fd, at, count, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    // The writer truncated the file between fstat and here.
    if (n == 0) return absl::OutOfRangeError(absl::StrCat(path, ": ends at byte ", offset));
    at += n;
    offset += n;
    count -= n;
  }
  return absl::OkStatus();
}

// When a machine fails, the file may be longer than the data that reached the disk.
absl::StatusOr<bool> IsZeroToEnd(int fd, int64_t offset, int64_t size, const std::string& path) {
  std::string block(size_t{64} << 10, '\0');
  while (offset < size) {
    const int64_t count = std::min<int64_t>(size - offset, static_cast<int64_t>(block.size()));
    RETURN_IF_ERROR(ReadAt(fd, offset, count, block.data(), path));
    if (std::cmp_less(block.find_first_not_of('\0'), count)) return false;
    offset += count;
  }
  return true;
}

}  // namespace

void AppendRecord(absl::string_view message, std::string* out) {
  STRETTO_CHECK(!message.empty() && static_cast<int64_t>(message.size()) <= kMaxRecordBytes);
  const RecordHeader header{static_cast<uint32_t>(message.size()), Crc32c(message)};
  out->append(reinterpret_cast<const char*>(&header), sizeof(header));
  out->append(message.data(), message.size());
}

absl::StatusOr<int64_t> FileSize(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  return int64_t{info.st_size};
}

absl::Status BrokenRecord(const std::string& path, int64_t offset, absl::string_view what,
                          absl::string_view found, absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(path, ": ", what, " of the record at byte ", offset,
                                          ": found ", found, ", expected ", expected));
}

absl::Status ReadRecord(int fd, int64_t offset, const std::string& path, std::string* message) {
  ASSIGN_OR_RETURN(const int64_t size, FileSize(fd, path));
  const absl::Status torn = absl::OutOfRangeError(absl::StrCat(path, ": torn at byte ", offset));
  if (size - offset < kRecordHeaderBytes) return torn;
  RecordHeader header;
  RETURN_IF_ERROR(ReadAt(fd, offset, kRecordHeaderBytes, &header, path));
  if (header.length == 0 || header.length > kMaxRecordBytes) {
    ASSIGN_OR_RETURN(const bool zero, IsZeroToEnd(fd, offset, size, path));
    if (zero) return torn;
    return BrokenRecord(path, offset, "length", absl::StrCat(header.length),
                        absl::StrCat("1 to ", kMaxRecordBytes));
  }
  const int64_t end = offset + kRecordHeaderBytes + header.length;
  if (end > size) return torn;
  message->resize(header.length);
  RETURN_IF_ERROR(ReadAt(fd, offset + kRecordHeaderBytes, header.length, message->data(), path));
  const uint32_t crc = Crc32c(*message);
  if (crc == header.crc32c) return absl::OkStatus();
  if (end == size) return torn;
  return BrokenRecord(path, offset, "crc32c", absl::StrCat(crc), absl::StrCat(header.crc32c));
}

absl::StatusOr<int64_t> FindRecord(int fd, int64_t offset, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t size, FileSize(fd, path));
  std::string rest(std::max<int64_t>(size - offset, 0), '\0');
  if (!rest.empty()) RETURN_IF_ERROR(ReadAt(fd, offset, std::ssize(rest), rest.data(), path));
  for (int64_t at = 0; at + kRecordHeaderBytes < std::ssize(rest); ++at) {
    RecordHeader header;
    std::memcpy(&header, rest.data() + at, sizeof(header));
    const int64_t most = std::min(kMaxRecordBytes, std::ssize(rest) - at - kRecordHeaderBytes);
    if (header.length == 0 || header.length > most) continue;
    const absl::string_view message(rest.data() + at + kRecordHeaderBytes, header.length);
    if (Crc32c(message) == header.crc32c) return offset + at;
  }
  return absl::OutOfRangeError(absl::StrCat(path, ": no record after byte ", offset));
}

absl::Status WriteRecords(int fd, int64_t size, absl::string_view records,
                          const std::string& path) {
  const absl::Status status = WriteAll(fd, records, path);
  if (status.ok()) return status;
  // Truncation needs no space.
  if (::ftruncate(fd, size) == 0) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; truncate to ", size,
                                                  " bytes: ", std::strerror(errno)));
}

}  // namespace stretto
