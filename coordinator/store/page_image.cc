// SPDX-License-Identifier: Apache-2.0

// The log (https://www.sqlite.org/fileformat2.html#walformat) is a header and frames of one page
// each. The checksum of a frame continues that of the frame before it. A frame belongs to this log
// if it has the salts of the header; others are left from an earlier use of the file. The last
// frame of a transaction has the size of the database, and others 0.
//
// A transaction is acknowledged when its frames are on disk, and only then the next one begins. So
// if a frame is wrong and the end of a transaction after it is continued by a frame, it was
// acknowledged and has been damaged since. A transaction that could not be synced is not continued:
// the next one begins where it began, and may leave the end of it.

#include "coordinator/store/page_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr int64_t kLogHeaderBytes = 32;
constexpr int64_t kFrameHeaderBytes = 24;
constexpr int64_t kFrameBytes = kFrameHeaderBytes + kPageBytes;
constexpr uint32_t kLogMagic = 0x377f0682;  // the lowest bit is set if checksums are big-endian

uint32_t BigEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

struct LogChecksum {
  uint32_t first = 0, second = 0;
  bool big_endian = false;

  void Add(absl::string_view bytes) {
    const auto word = [&](size_t at) {
      const uint32_t value = BigEndian(bytes, at);
      return big_endian ? value : __builtin_bswap32(value);
    };
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first += word(at) + second;
      second += word(at + 4) + first;
    }
  }
  bool IsAt(absl::string_view bytes, size_t at) const {
    return BigEndian(bytes, at) == first && BigEndian(bytes, at + 4) == second;
  }
};

// Reads page by page, so that a sector that the disk cannot read costs only its page.
absl::StatusOr<std::string> ReadWhatIsReadable(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  std::string bytes(info.st_size, '\0');
  for (int64_t at = 0; at < info.st_size; at += kPageBytes) {
    const int64_t count = std::min<int64_t>(kPageBytes, info.st_size - at);
    ReadFully(file.get(), at, count, bytes.data() + at, path).IgnoreError();
  }
  return bytes;
}

class Log {
 public:
  explicit Log(std::string bytes) : bytes_(std::move(bytes)) {}

  // Applies all whole transactions to `image` and finds damage.
  void Apply(PageImage* image) {
    if (static_cast<int64_t>(bytes_.size()) <= kLogHeaderBytes) return;  // no frame
    const bool readable = ReadHeader();
    int64_t frame = 0, begin = 0;  // of the transaction
    for (; readable && frame < frames() && IsNext(frame); ++frame) {
      const int64_t size = BigEndian(bytes_, At(frame) + 4);
      if (size == 0) continue;
      for (; begin <= frame; ++begin) PutPage(begin, &image->pages);
      image->pages.resize(size * kPageBytes);
    }
    if (readable && !GoesOnAfterTransactionOf(frame)) return;
    image->log_damage = readable ? At(frame) : 0;
    image->later_pages = image->pages;
    for (; frame < frames(); ++frame) {
      if (!readable || HasSalts(frame)) PutPage(frame, &image->later_pages);
    }
  }

 private:
  int64_t frames() const {
    return (static_cast<int64_t>(bytes_.size()) - kLogHeaderBytes) / kFrameBytes;
  }
  static int64_t At(int64_t frame) { return kLogHeaderBytes + frame * kFrameBytes; }
  absl::string_view Page(int64_t frame) const {
    return absl::string_view(bytes_).substr(At(frame) + kFrameHeaderBytes, kPageBytes);
  }
  // Grows `pages` as far as the page needs it, unless its number cannot be right.
  void PutPage(int64_t frame, std::string* pages) const {
    const int64_t end = int64_t{BigEndian(bytes_, At(frame))} * kPageBytes;
    const auto size = static_cast<int64_t>(pages->size());
    if (end < kPageBytes || end > size + frames() * kPageBytes) return;
    if (end > size) pages->resize(end);
    const absl::string_view page = Page(frame);
    std::copy(page.begin(), page.end(), pages->begin() + (end - kPageBytes));
  }

  bool ReadHeader() {
    const uint32_t magic = BigEndian(bytes_, 0);
    if ((magic & ~1u) != kLogMagic || BigEndian(bytes_, 8) != kPageBytes) return false;
    checksum_.big_endian = (magic & 1) != 0;
    checksum_.Add(absl::string_view(bytes_).substr(0, 24));
    return checksum_.IsAt(bytes_, 24);
  }
  bool HasSalts(int64_t frame) const {
    return bytes_.compare(At(frame) + 8, 8, bytes_, 16, 8) == 0;
  }
  // Adds the frame to `checksum`, that of the frame before it. Returns whether it is its own.
  bool Continues(int64_t frame, LogChecksum* checksum) const {
    if (!HasSalts(frame)) return false;
    checksum->Add(absl::string_view(bytes_).substr(At(frame), 8));
    checksum->Add(Page(frame));
    return checksum->IsAt(bytes_, At(frame) + 16);
  }
  bool IsNext(int64_t frame) { return Continues(frame, &checksum_); }
  bool GoesOnAfterTransactionOf(int64_t frame) const {
    for (; frame + 1 < frames(); ++frame) {
      if (BigEndian(bytes_, At(frame) + 4) == 0) continue;
      LogChecksum stored = {.first = BigEndian(bytes_, At(frame) + 16),
                            .second = BigEndian(bytes_, At(frame) + 20),
                            .big_endian = checksum_.big_endian};
      if (Continues(frame + 1, &stored)) return true;
    }
    return false;
  }
  std::string bytes_;
  LogChecksum checksum_;
};

absl::Status ApplyLog(const std::string& path, PageImage* image) {
  const std::string log = path + "-wal";
  if (access(log.c_str(), F_OK) != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string bytes, ReadWhatIsReadable(log));
  Log(std::move(bytes)).Apply(image);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PageImage> ReadPageImage(const std::string& path) {
  PageImage image;
  ASSIGN_OR_RETURN(image.pages, ReadWhatIsReadable(path));
  image.pages.resize((image.pages.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  RETURN_IF_ERROR(ApplyLog(path, &image));
  return image;
}

absl::Status CheckLog(const std::string& path) {
  PageImage image;
  RETURN_IF_ERROR(ApplyLog(path, &image));
  if (!image.log_damage) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("job store ", path,
                                          " is damaged: transactions from byte ", *image.log_damage,
                                          " of ", path, "-wal on are lost"));
}

}  // namespace stretto::coordinator
