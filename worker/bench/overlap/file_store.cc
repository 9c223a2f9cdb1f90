// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/file_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/comm/sleep.h"

namespace stretto::bench {

// Hexadecimal, because a key may contain slashes.
std::string FileStore::PathOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", name_, "-", absl::BytesToHexString(key));
}

absl::Status FileStore::Set(absl::string_view key, absl::string_view bytes) {
  std::string draft = absl::StrCat(folder_, "/draft-XXXXXX");
  const FileDescriptor file(mkostemp(draft.data(), O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("create ", draft));
  const absl::Cleanup remove = [&] { unlink(draft.c_str()); };
  RETURN_IF_ERROR(WriteAll(file.get(), bytes, draft));
  // Unlike rename, link refuses to replace a value that another rank has set.
  const std::string path = PathOf(key);
  if (link(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  if (errno != EEXIST) return ErrnoStatus(errno, absl::StrCat("link ", path));
  ASSIGN_OR_RETURN(const std::string found, ReadFile(path));
  if (found == bytes) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("key ", key, " in ", folder_, " holds other bytes; use an empty folder"));
}

absl::StatusOr<std::string> FileStore::Get(absl::string_view key, absl::Duration timeout) {
  const std::string path = PathOf(key);
  const absl::Duration deadline = Clock::Real().Monotonic() + timeout;
  while (access(path.c_str(), R_OK) != 0) {
    if (Clock::Real().Monotonic() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("key ", key, " was not set in ", folder_,
                                                      " within ", absl::FormatDuration(timeout)));
    }
    SleepUntil(Clock::Real().Monotonic() + absl::Milliseconds(5));
  }
  return ReadFile(path);
}

}  // namespace stretto::bench
