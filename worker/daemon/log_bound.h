// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds the room of a file that another process appends to, such as the log of a trainer, without
// a word to that process: the blocks of its middle are given back to the file system, and its
// length and the position of every later byte remain. So a reader that follows the file continues
// where it was, and neither process needs the other.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stretto::daemon {

// The begin of a file is kept, at most this much of it: a log shows there how its run began.
inline constexpr int64_t kKeptBegin = int64_t{1} << 20;
inline constexpr int64_t kLeastLogBytes = int64_t{1} << 16;

// If the file takes more than `max_bytes` (at least kLeastLogBytes) on its disk, drops what is
// between its begin and the newest half of `max_bytes`. Returns how many bytes were dropped, 0 if
// there was room. A file grows further until the next call. Errors: UNIMPLEMENTED (its file system
// cannot), those of OpenFile and ErrnoStatus.
absl::StatusOr<int64_t> BoundLog(const std::string& path, int64_t max_bytes);

// Returns the position of the next byte at or after `position` that has not been dropped;
// `position` itself if nothing was dropped there, behind the end, or if the file has no positions.
int64_t NextKept(int fd, int64_t position);

}  // namespace stretto::daemon
