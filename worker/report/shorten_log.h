// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a log of reports drops at its bound.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto {

struct ShortenedLog {
  FileDescriptor file;  // to append to
  int64_t size = 0;
};

// Replaces the log at `path`, which has `size` bytes of whole records, by one of at most three
// quarters of `max_bytes`: its newest half of `max_bytes`, and of older reports
//
//   - what there is once: the first step, and what describes the run (prepared, first operation,
//     profile);
//   - what is rare: evaluations, skipped updates, checkpoints, samples, warnings. If these fill a
//     quarter of the bound, they are dropped too.
//
// The new file is complete on disk before it gets the name of the old one, which stays as it is on
// an error. Errors: ResourceExhausted (disk full), those of ErrnoStatus.
absl::StatusOr<ShortenedLog> ShortenLog(const std::string& path, int64_t size, int64_t max_bytes);

}  // namespace stretto
