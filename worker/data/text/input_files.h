// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files a data set is made of.

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
  bool binary = false;      // a NUL byte in its first 64 KiB: left out
};

// `inputs` in their order; folders are walked recursively in sorted order, links to folders not
// followed, files that are not regular and what Prepare itself writes for `prefix` left out.
// Errors: InvalidArgument (no file, an input that is neither file nor folder), NotFound or
// PermissionDenied (names the input).
absl::StatusOr<std::vector<InputFile>> ListInputFiles(const std::vector<std::string>& inputs,
                                                      const std::string& prefix);

}  // namespace stretto
