// SPDX-License-Identifier: Apache-2.0

// openat2 with RESOLVE_BENEATH resolves a whole path in the kernel and refuses what leaves the
// root. Without it, this file walks: it opens one part after the other, never through a symbolic
// link, and puts what a link holds in front of the parts that are left. ".." returns to the
// descriptor of the folder before, so no rename meanwhile leads out. Folders are changed through
// descriptors of their parents that were opened the same way.

#include "proto/base/beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr int kMostLinks = 40;   // as in the kernel
constexpr int kMostRetries = 8;  // of a path that is being renamed meanwhile

struct ConfinedRoots {
  Mutex mu;
  std::map<std::string, Links> roots GUARDED_BY(mu);
};

ConfinedRoots& Confined() {
  static auto* const confined = new ConfinedRoots();  // never destroyed: threads outlive main
  return *confined;
}

// A path under a root.
struct Place {
  std::string root, relative;
  Links links;
};

std::optional<Place> PlaceOf(const std::string& path) {
  ConfinedRoots& confined = Confined();
  const MutexLock lock(confined.mu);
  std::optional<Place> place;
  for (const auto& [root, links] : confined.roots) {
    if (!absl::StartsWith(path, root)) continue;
    if (path.size() > root.size() && path[root.size()] != '/' && root != "/") continue;
    if (place.has_value() && place->root.size() > root.size()) continue;
    const size_t begin = path.find_first_not_of('/', root.size());
    place = Place{root, begin == std::string::npos ? "." : path.substr(begin), links};
  }
  return place;
}

// A descriptor, or the errno of openat2 without one.
struct Opened {
  FileDescriptor file;
  int error = 0;
};

Opened Result(int fd) { return {FileDescriptor(fd), fd < 0 ? errno : 0}; }

Opened OpenByKernel(int root, const std::string& relative, int flags, mode_t mode, Links links) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (links == Links::kNone) how.resolve |= RESOLVE_NO_SYMLINKS;
  Opened opened;
  for (int i = 0; i < kMostRetries; ++i) {
    opened =
        Result(static_cast<int>(::syscall(SYS_openat2, root, relative.c_str(), &how, sizeof(how))));
    if (opened.error != EAGAIN && opened.error != EINTR) break;
  }
  return opened;
}

class PartWalk {
 public:
  PartWalk(FileDescriptor root, absl::string_view relative, Links links) : links_(links) {
    folders_.push_back(std::move(root));
    Prepend(relative);
  }

  Opened Open(int flags, mode_t mode) {
    while (!parts_.empty()) {
      const std::string name = std::move(parts_.front());
      parts_.pop_front();
      if (name == "..") {
        if (folders_.size() == 1) return {{}, EXDEV};
        folders_.pop_back();
        continue;
      }
      char target[PATH_MAX];
      const ssize_t size = ::readlinkat(folders_.back().get(), name.c_str(), target, PATH_MAX);
      if (size >= 0) {
        const bool own = parts_.empty() && (flags & O_NOFOLLOW) != 0;
        if (own || links_ == Links::kNone || ++followed_ > kMostLinks) return {{}, ELOOP};
        if (parts_.empty() && (flags & O_EXCL) != 0) return {{}, EEXIST};
        if (size == 0 || target[0] == '/') return {{}, EXDEV};
        Prepend(absl::string_view(target, size));
      } else if (parts_.empty()) {
        return Result(
            ::openat(folders_.back().get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
      } else {
        constexpr int kFolder = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        Opened folder = Result(::openat(folders_.back().get(), name.c_str(), kFolder));
        if (!folder.file.valid()) return folder;
        folders_.push_back(std::move(folder.file));
      }
    }
    return Result(::openat(folders_.back().get(), ".", flags & ~(O_CREAT | O_EXCL)));
  }

 private:
  void Prepend(absl::string_view path) {
    std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
    std::erase(parts, ".");
    parts_.insert(parts_.begin(), parts.begin(), parts.end());
  }

  const Links links_;
  std::vector<FileDescriptor> folders_;  // from the root to where we are
  std::deque<std::string> parts_;        // that are left
  int followed_ = 0;
};

// Files that a trainer may have put there are not waited for, and devices are not opened.
absl::StatusOr<FileDescriptor> CheckKind(FileDescriptor file, const std::string& path) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return file;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": found another kind of file, expected a regular file"));
}

absl::StatusOr<FileDescriptor> OpenIn(const std::string& root, const std::string& relative,
                                      int flags, mode_t mode, Links links, bool by_parts) {
  FileDescriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("open ", root));
  const std::string path = absl::StrCat(root, "/", relative);
  const bool place_only = (flags & O_PATH) != 0;
  flags |= place_only ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const auto open = [&](int with) -> Opened {
    if (!by_parts) {
      Opened opened = OpenByKernel(folder.get(), relative, with, mode, links);
      // EPERM: filters of older container engines refuse calls that they do not know.
      if (opened.error != ENOSYS && opened.error != EPERM && opened.error != EAGAIN) return opened;
      // Somebody, a file server perhaps, has a lease of the file and gives it up for who waits.
      if (opened.error == EAGAIN) with &= ~O_NONBLOCK;
    }
    FileDescriptor start(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 0));
    if (!start.valid()) return {{}, errno};
    return PartWalk(std::move(start), relative, links).Open(with, mode);
  };
  // With O_CREAT the kernel may refuse a file that exists and is another user's
  // (fs.protected_regular), so it is asked for only where there is none.
  const bool creates = (flags & O_CREAT) != 0 && (flags & O_EXCL) == 0;
  Opened opened = open(creates ? flags & ~O_CREAT : flags);
  if (creates && opened.error == ENOENT) opened = open(flags);
  if (opened.file.valid() && place_only) return std::move(opened.file);
  if (opened.file.valid()) return CheckKind(std::move(opened.file), path);
  if (opened.error == EXDEV) {
    return absl::PermissionDeniedError(absl::StrCat("open ", path,
                                                    ": found a symbolic link that leads out of ",
                                                    root, " or is absolute, expected none"));
  }
  if (opened.error == ELOOP) {
    return absl::PermissionDeniedError(
        absl::StrCat("open ", path, ": found a symbolic link, expected none"));
  }
  return ErrnoStatus(opened.error, absl::StrCat("open ", path));
}

// The folder that has the last part of a path, and that part.
struct Parent {
  FileDescriptor folder;
  std::string name;
};

absl::StatusOr<Parent> OpenParent(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string folder = whole.parent_path().string();
  ASSIGN_OR_RETURN(FileDescriptor file,
                   OpenFile(folder.empty() ? "." : folder, O_PATH | O_DIRECTORY));
  return Parent{std::move(file), whole.filename().string()};
}

}  // namespace

void Confine(const std::string& root, Links links) {
  if (root.empty()) return;
  std::error_code error;
  const std::string real = std::filesystem::weakly_canonical(root, error).string();
  ConfinedRoots& confined = Confined();
  const MutexLock lock(confined.mu);
  confined.roots[root] = links;
  if (!error) confined.roots[real] = links;  // as PathBeneath returns it
}

absl::StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags, mode_t mode) {
  if (const std::optional<Place> place = PlaceOf(path); place.has_value()) {
    return OpenBeneath(place->root, place->relative, flags, mode, place->links);
  }
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return file;
}

absl::StatusOr<FileDescriptor> OpenBeneath(const std::string& root, const std::string& relative,
                                           int flags, mode_t mode, Links links) {
  return OpenIn(root, relative, flags, mode, links, /*by_parts=*/false);
}

absl::StatusOr<FileDescriptor> OpenBeneathByParts(const std::string& root,
                                                  const std::string& relative, int flags,
                                                  mode_t mode, Links links) {
  return OpenIn(root, relative, flags, mode, links, /*by_parts=*/true);
}

absl::Status MakeFolders(const std::string& path) {
  const std::optional<Place> place = PlaceOf(path);
  if (!place.has_value()) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", path))
                 : absl::OkStatus();
  }
  std::error_code ignored;  // opening it reports why it is not there
  std::filesystem::create_directories(place->root, ignored);
  ASSIGN_OR_RETURN(FileDescriptor folder, OpenFile(place->root, O_PATH | O_DIRECTORY));
  std::string done;
  for (absl::string_view part : absl::StrSplit(place->relative, '/', absl::SkipEmpty())) {
    const std::string name(part);
    if (name == ".") continue;
    absl::StrAppend(&done, done.empty() ? "" : "/", name);
    if (::mkdirat(folder.get(), name.c_str(), 0777) != 0 && errno != EEXIST)
      return ErrnoStatus(errno, absl::StrCat("make folder ", place->root, "/", done));
    ASSIGN_OR_RETURN(folder, OpenBeneath(place->root, done, O_PATH | O_DIRECTORY, 0, place->links));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FolderEntry>> ListFolder(const std::string& path) {
  absl::StatusOr<FileDescriptor> opened = OpenFile(path, O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) {
    absl::string_view why = opened.status().message();
    const bool plain = absl::ConsumePrefix(&why, "open ");  // the path and the reason follow
    return absl::Status(opened.status().code(), absl::StrCat(plain ? "read folder " : "", why));
  }
  FileDescriptor folder = *std::move(opened);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder.get()), ::closedir);
  if (entries == nullptr) return ErrnoStatus(errno, absl::StrCat("read folder ", path));
  (void)folder.Release();
  std::vector<FolderEntry> found;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const bool told = entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN;
    found.push_back(
        {name, told ? entry->d_type == DT_DIR
                    : OpenFile(absl::StrCat(path, "/", name), O_RDONLY | O_DIRECTORY).ok()});
  }
  if (errno != 0) return ErrnoStatus(errno, absl::StrCat("read folder ", path));
  return found;
}

absl::Status RenameFile(const std::string& from, const std::string& to, unsigned flags) {
  ASSIGN_OR_RETURN(const Parent here, OpenParent(from));
  ASSIGN_OR_RETURN(const Parent there, OpenParent(to));
  if (::renameat2(here.folder.get(), here.name.c_str(), there.folder.get(), there.name.c_str(),
                  flags) != 0)
    return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
  return absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  absl::StatusOr<Parent> parent = OpenParent(path);
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  RETURN_IF_ERROR(parent.status());
  if (::unlinkat(parent->folder.get(), parent->name.c_str(), 0) == 0 || errno == ENOENT)
    return absl::OkStatus();
  if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, absl::StrCat("remove ", path));
  // The library removes a tree by descriptors and follows no links, from a folder that is held.
  std::error_code error;
  std::filesystem::remove_all(
      absl::StrCat("/proc/self/fd/", parent->folder.get(), "/", parent->name), error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", path)) : absl::OkStatus();
}

}  // namespace stretto
