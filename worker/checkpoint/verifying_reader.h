// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the tensors of a checkpoint and verifies its files on the way, so that a resume reads each
// byte once.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/checked_file.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {

// One of several readers, each of which verifies a share of the files: every `shares`-th, beginning
// with file `share`. It reads these from begin to end and of the others only what is asked for. Not
// thread-safe.
class VerifyingReader {
 public:
  // Borrows the checkpoint. Errors: DataLoss (a file is missing), those of ErrnoStatus.
  static absl::StatusOr<VerifyingReader> Open(const Checkpoint& checkpoint, int share, int shares,
                                              const ReadProgress& progress = {});

  // Returns the place of a box: its smallest key in the files of this share, in which WriteShard
  // puts tensors in the order of their keys; empty for a box that has no part there. In the order
  // of their places, boxes are read without reading a byte of a file twice.
  std::string PlaceOf(absl::string_view name, const std::vector<int64_t>& starts,
                      const std::vector<int64_t>& extents) const;

  // As Checkpoint::Read. What it copies is verified only by Finish.
  absl::Status Read(absl::string_view name, absl::string_view dtype,
                    const std::vector<int64_t>& starts, const std::vector<int64_t>& extents,
                    void* out);

  // Reads what is left of this share's files and compares their checksums. Call it once, at the
  // end. Errors: DataLoss (names the file, found, expected), those of ErrnoStatus.
  absl::Status Finish();

 private:
  explicit VerifyingReader(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}

  const Checkpoint* checkpoint_;
  std::map<std::string, CheckedFile> share_;  // by name
};

}  // namespace stretto
