// SPDX-License-Identifier: Apache-2.0
#pragma once
// The input files of a data set.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto {

struct InputFile {
  std::string path;
  int64_t size = 0;         // bytes
  int64_t modified = 0;     // nanoseconds since 1970
  bool json_lines = false;  // named *.jsonl or *.ndjson: a document per line
  bool binary = false;      // a NUL byte in its first 64 KiB: skipped
};

// Returns `inputs` in their order. Folders are walked recursively in sorted order, without
// following links to folders. Files that are not regular and files that Prepare writes for `prefix`
// are skipped. Errors: InvalidArgument (no file, an input that is neither file nor folder),
// NotFound or PermissionDenied (names the input).
absl::StatusOr<std::vector<InputFile>> ListInputFiles(const std::vector<std::string>& inputs,
                                                      const std::string& prefix);

}  // namespace stretto
