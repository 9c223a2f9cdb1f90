// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint verify`: reads all of a model and says what is bad. Changes nothing.

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

// Called now and then with what was done of how much.
using VerifyProgress = std::function<void(int64_t bytes, int64_t total_bytes)>;

// The folder of one checkpoint: manifest, sizes and checksums of all files, their headers against
// the manifest, and that every value is finite. "hf:" and "llmc:": what OpenModel checks, and that
// every value is finite, those of an exported optimizer's state too, with its header. Errors: those
// of ErrnoStatus (a folder that cannot be read says nothing about the model).
absl::StatusOr<Verified> VerifyModel(const std::string& name, const VerifyProgress& progress);

}  // namespace stretto
