// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"

namespace stretto {

absl::StatusOr<Snapshot> Snapshot::Make(int64_t bytes) {
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(absl::StrCat("copy for checkpoints: found no room for ",
                                                     FormatBytes(bytes), ": ",
                                                     std::strerror(error)));
  }
  Snapshot snapshot(std::unique_ptr<void, Unmap>(memory, Unmap{static_cast<int64_t>(size)}));
  (void)::madvise(memory, size, MADV_HUGEPAGE);  // a hint
  std::memset(memory, 0, size);
  return snapshot;
}

absl::StatusOr<std::vector<ShardTensor>> Snapshot::Copy(const std::vector<ShardTensor>& tensors) {
  std::vector<ShardTensor> copies = tensors;
  int64_t used = 0;
  for (ShardTensor& tensor : copies) {
    ASSIGN_OR_RETURN(const int64_t size, TensorBytes(tensor.dtype, tensor.extents));
    if (size > bytes() - used) {
      return absl::InternalError(absl::StrCat("copy for checkpoints: tensor ", tensor.name,
                                              ": found ", bytes() - used,
                                              " bytes of room, "
                                              "expected ",
                                              size));
    }
    ASSIGN_OR_RETURN(const void* const data, tensor.data.fetch());
    void* const to = static_cast<char*>(memory_.get()) + used;
    std::memcpy(to, data, static_cast<size_t>(size));
    tensor.data = TensorData(to);
    used += size;
  }
  return copies;
}

}  // namespace stretto
