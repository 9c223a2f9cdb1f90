// SPDX-License-Identifier: Apache-2.0
#include "worker/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/mapping_faults.h"

namespace stretto {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ": found something else than a regular "
                                                   "file, expected a regular file"));
  }
  if (info.st_size == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("mmap ", path));
  NoteMapping(data, info.st_size, path);
  return MappedFile(static_cast<const char*>(data), info.st_size);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  ForgetMapping(data_);
  ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace stretto
