// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ca/index_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/nearest_name.h"
#include "proto/base/status_macros.h"

namespace stretto::ca {

absl::StatusOr<FileDescriptor> LockFile(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | flags, 0600));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock ", path));
  }
  return file;
}

absl::StatusOr<Index> ReadIndexFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<Index> index = ParseIndex(text);
  if (!index.ok()) {
    return absl::Status(index.status().code(), absl::StrCat(path, ":", index.status().message()));
  }
  return index;
}

absl::StatusOr<IndexFile> IndexFile::Open(const std::string& path, RecordWords words, int flags) {
  ASSIGN_OR_RETURN(FileDescriptor lock, LockFile(path, flags));
  ASSIGN_OR_RETURN(Index index, ReadIndexFile(path));
  // The rest of a line that a crash cut off: the next line must not become a part of it.
  if (::ftruncate(lock.get(), index.whole) != 0) {
    return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  }
  return IndexFile(path, std::move(words), std::move(lock), std::move(index));
}

absl::Status IndexFile::Append(const std::string& line) {
  absl::Status status = WriteAll(file_.get(), line, path_);
  if (status.ok() && ::fsync(file_.get()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("fsync ", path_));
  }
  if (!status.ok()) {
    // The part of a line that fitted on a full disk. Open does it again if this fails.
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), index_.whole);
    return status;
  }
  index_.whole += static_cast<int64_t>(line.size());
  ++index_.lines;
  return absl::OkStatus();
}

absl::Status IndexFile::Issue(const Issued& issued, absl::Time now) {
  RETURN_IF_ERROR(Append(IssuedLine(issued, now)));
  index_.issued.push_back(issued);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Issued>> IndexFile::Revoke(const std::string& what,
                                                      const std::string& reason, absl::Time now) {
  const std::string serial = absl::AsciiStrToLower(what);
  std::vector<Issued> meant;
  std::vector<std::string> names;
  for (Issued& one : index_.issued) {
    names.push_back(one.name);
    const bool by_name = one.name == what && (one.ValidAt(now) || one.revoked);
    if (!by_name && one.serial != serial) continue;
    if (!one.revoked) {
      RETURN_IF_ERROR(Append(RevokedLine(one.serial, reason, now)));
      one.revoked = now;
      one.reason = reason;
    }
    meant.push_back(one);
  }
  if (!meant.empty()) return meant;
  const std::string near = NearestName(what, names);
  return absl::NotFoundError(absl::StrCat(
      "found no valid ", words_.kind, " with the name or the ", words_.number, " \"",
      absl::CHexEscape(what), "\" in ", path_, ", expected one that `", words_.list, "` shows",
      near.empty() || near == what ? "" : absl::StrCat("; did you mean \"", near, "\"?")));
}

}  // namespace stretto::ca
