// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint verify`: reads a whole model and reports damage. Changes nothing.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto {

struct Verified {
  std::vector<std::string> bad;  // each names the file, what was found, what was expected
  int64_t tensors = 0;
  int64_t bytes = 0;  // read
};

// Called now and then with the progress.
using VerifyProgress = std::function<void(int64_t bytes, int64_t total_bytes)>;

// For the folder of one checkpoint, verifies manifest, sizes and checksums of all files, their
// headers against the manifest, and that every value is finite. For "hf:" and "llmc:", verifies
// what OpenModel checks and that every value is finite, including those of an exported optimizer's
// state, and its header. Errors: those of ErrnoStatus (a folder that cannot be read proves nothing
// about the model).
absl::StatusOr<Verified> VerifyModel(const std::string& name, const VerifyProgress& progress);

}  // namespace stretto
