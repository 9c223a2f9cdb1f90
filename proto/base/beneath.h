// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that opens files by names in which others have a say: jobs, clients, peers, and
// whoever may write where such a name leads. A process names its roots (Confine). From then on the
// kernel resolves every path under a root beneath that root, at the moment it is opened, so a
// symbolic link that is swapped after a check leads nowhere else. PathBeneath (files.h) checks a
// name early and has the better message; what is here is what holds. Thread-safe.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto {

// Which symbolic links are followed under a root.
enum class Links : uint8_t {
  kBeneath,  // relative ones that do not leave the root
  kNone,
};

// Confines what this process opens under the folder `root` from now on; it cannot be undone. The
// path of the root itself is trusted, and so is what it leads to. Of several roots that contain a
// path, the longest counts. An empty `root` is none.
void Confine(const std::string& root, Links links);

// Opens a file or folder as open(2) does, with O_CLOEXEC. Under a root it opens regular files and
// folders only, and never waits for the other end of a pipe. Errors: PERMISSION_DENIED (a symbolic
// link that is not followed), INVALID_ARGUMENT (another kind of file), those of ErrnoStatus.
absl::StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags, mode_t mode = 0666);

struct FolderEntry {
  std::string name;
  bool folder = false;  // itself, or by a link that OpenFile follows
};
// Returns what a folder has, in no particular order. Errors: those of OpenFile; of ErrnoStatus.
absl::StatusOr<std::vector<FolderEntry>> ListFolder(const std::string& path);

// Creates the folder and those above it. Errors: those of OpenFile.
absl::Status MakeFolders(const std::string& path);

// As renameat2(2) with `flags`. The last parts of both paths may be symbolic links, which are
// renamed themselves. Errors: those of OpenFile for the folders; ErrnoStatus.
absl::Status RenameFile(const std::string& from, const std::string& to, unsigned flags = 0);

// Removes a file, or a folder with all that it contains; symbolic links are removed, not followed.
// Nothing there is no error.
absl::Status RemoveTree(const std::string& path);

// Opens `relative` under the folder `root`, as OpenFile does. Without openat2 in the kernel, or
// where a filter refuses it, each part is opened by itself.
absl::StatusOr<FileDescriptor> OpenBeneath(const std::string& root, const std::string& relative,
                                           int flags, mode_t mode, Links links);
// The same without openat2, whatever the kernel has.
absl::StatusOr<FileDescriptor> OpenBeneathByParts(const std::string& root,
                                                  const std::string& relative, int flags,
                                                  mode_t mode, Links links);

}  // namespace stretto
