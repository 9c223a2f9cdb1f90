// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/aligned_memory.h"

#include <sys/mman.h>

#include "proto/base/check.h"

namespace stretto::cpu {

AlignedMemory AllocateAligned(size_t bytes) {
  constexpr size_t kVector = 64, kLargePage = size_t{2} << 20;
  const size_t alignment = bytes < kLargePage ? kVector : kLargePage;
  const size_t size = (bytes / alignment + 1) * alignment;
  AlignedMemory memory(std::aligned_alloc(alignment, size));
  STRETTO_CHECK(memory != nullptr);
  // This is a hint: without large pages everything works, 1 % slower.
  if (alignment == kLargePage) (void)madvise(memory.get(), size, MADV_HUGEPAGE);
  return memory;
}

}  // namespace stretto::cpu
