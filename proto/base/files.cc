// SPDX-License-Identifier: Apache-2.0

// Atomic replacement writes a temporary file, syncs it, renames it and syncs the folder.
// PathBeneath resolves symbolic links before it compares with the root; what opens the path later
// (beneath.h) is held to the root again. CRC-32C uses the CPU's instruction if it has one.

#include "proto/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/base/beneath.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::Release() { return std::exchange(fd_, -1); }

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    default:  // any other errno
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  std::string content;
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t n = ::read(file.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (n == 0) return content;
    content.append(block.data(), n);
  }
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY | O_NONBLOCK));
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found another kind of file, expected a regular file"));
  }
  if (info.st_size > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found ", info.st_size, " bytes, expected at most ", most));
  }
  std::string content(info.st_size, '\0');
  RETURN_IF_ERROR(ReadFully(file.get(), 0, info.st_size, content.data(), path));
  return content;
}

absl::Status ReadFully(int fd, int64_t offset, int64_t count, void* out, const std::string& path) {
  char* at = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t n = ::pread(fd, at, count, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (n == 0) {
      return absl::DataLossError(absl::StrCat(path, ": found the end of the file at byte ", offset,
                                              ", expected ", count, " more bytes"));
    }
    at += n;
    offset += n;
    count -= n;
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view content, absl::string_view path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("write ", path));
    content.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::Status SyncPath(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  if (::fsync(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path));
  return absl::OkStatus();
}

namespace {

// Fills the new file, which has another name so far, and gives it the name `path`.
absl::Status FinishFile(const FileDescriptor& file, const std::string& temporary,
                        const std::string& path, absl::string_view content) {
  RETURN_IF_ERROR(WriteAll(file.get(), content, path));
  if (::fsync(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path));
  return RenameFile(temporary, path);
}

absl::Status ReplaceFile(const std::string& path, absl::string_view content, mode_t mode) {
  // A name that nobody else has, so what is removed below is ours.
  const std::string temporary = absl::StrCat(path, ".tmp-", NewUid());
  const absl::StatusOr<FileDescriptor> file =
      OpenFile(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrReplaceAll(file.status().message(), {{temporary, path}}));
  }
  if (absl::Status failed = FinishFile(*file, temporary, path, content); !failed.ok()) {
    RemoveTree(temporary).IgnoreError();
    return failed;
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return SyncPath(parent.empty() ? "." : parent.string());
}

}  // namespace

absl::Status WriteFileAtomic(const std::string& path, absl::string_view content) {
  return ReplaceFile(path, content, 0644);
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view content) {
  return ReplaceFile(path, content, 0600);
}

absl::StatusOr<std::string> PathBeneath(const std::string& root, const std::string& relative) {
  namespace fs = std::filesystem;
  auto refuse = [&](absl::string_view why) {
    return absl::PermissionDeniedError(
        absl::StrCat("path '", relative, "' ", why, ", expected a path beneath ", root));
  };
  if (relative.empty()) return refuse("is empty");
  for (char c : relative) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return refuse("has control characters");
  }
  const fs::path path(relative);
  if (path.is_absolute()) return refuse("is absolute");
  for (const fs::path& part : path) {
    if (part == "..") return refuse("contains '..'");
  }
  std::error_code error;
  const fs::path base = fs::weakly_canonical(root, error);
  if (error) return absl::NotFoundError(absl::StrCat("root ", root, ": ", error.message()));
  const fs::path resolved = fs::weakly_canonical(base / path, error);
  if (error)
    return absl::NotFoundError(absl::StrCat((base / path).string(), ": ", error.message()));
  const auto [end, unused] =
      std::mismatch(base.begin(), base.end(), resolved.begin(), resolved.end());
  if (end != base.end()) return refuse("leads outside through a symbolic link");
  return resolved.string();
}

#if defined(__x86_64__)
namespace {

// The CPU's own CRC-32C instruction, eight bytes at a time.
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(absl::string_view content,
                                                               uint32_t crc) {
  uint64_t state = ~crc;
  const char* at = content.data();
  size_t left = content.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto rest = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) rest = __builtin_ia32_crc32qi(rest, static_cast<uint8_t>(*at));
  return ~rest;
}

}  // namespace
#endif

uint32_t Crc32c(absl::string_view content, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cByInstruction(content, crc);
#endif
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
      t[i] = value;
    }
    return t;
  }();
  crc = ~crc;
  for (char c : content) crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace stretto
