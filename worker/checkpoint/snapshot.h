// SPDX-License-Identifier: Apache-2.0
#pragma once
// A copy of tensors in host memory, from which a checkpoint is written while the tensors change.

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {

// Room for one copy at a time. Not thread-safe; what Copy returned may be read by any thread.
class Snapshot {
 public:
  // Allocates room for tensors of this many bytes together, and all of its pages, so that no copy
  // waits for the system and others see that the memory is used. Errors: ResourceExhausted.
  static absl::StatusOr<Snapshot> Make(int64_t bytes);

  // Copies the tensors and returns them with the data of the copy, which is valid until the next
  // call. Errors: those of fetching; Internal, they need more room than there is.
  absl::StatusOr<std::vector<ShardTensor>> Copy(const std::vector<ShardTensor>& tensors);

  int64_t bytes() const { return memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    int64_t bytes = 0;
    void operator()(void* memory) const { ::munmap(memory, static_cast<size_t>(bytes)); }
  };
  explicit Snapshot(std::unique_ptr<void, Unmap> memory) : memory_(std::move(memory)) {}

  std::unique_ptr<void, Unmap> memory_;
};

}  // namespace stretto
