// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/log_bound.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/check.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

constexpr int64_t kBlock = 4096;  // of file systems
constexpr int64_t kStatBlock = 512;

int64_t RoundDown(int64_t bytes) { return bytes - bytes % kBlock; }

}  // namespace

absl::StatusOr<int64_t> BoundLog(const std::string& path, int64_t max_bytes) {
  STRETTO_CHECK(max_bytes >= kLeastLogBytes);
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDWR | O_NOFOLLOW));
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode) || info.st_blocks * kStatBlock <= max_bytes) return 0;
  const int64_t begin = RoundDown(std::min(kKeptBegin, max_bytes / 4));
  const int64_t first = NextKept(file.get(), begin);
  const int64_t end = RoundDown(info.st_size - max_bytes / 2);
  if (end <= first) return 0;
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin) !=
      0) {
    const std::string what = absl::StrCat("drop the middle of ", path);
    if (errno == EOPNOTSUPP) {
      return absl::UnimplementedError(
          absl::StrCat(what, ": found a file system that cannot, so it grows without bound"));
    }
    return ErrnoStatus(errno, what);
  }
  return end - first;
}

int64_t NextKept(int fd, int64_t position) {
  const off_t next = ::lseek(fd, position, SEEK_DATA);
  return next < 0 ? position : next;
}

}  // namespace stretto::daemon
