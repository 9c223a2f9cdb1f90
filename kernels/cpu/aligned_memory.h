// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory for vectors; large blocks use large pages.

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace stretto::cpu {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<void, FreeMemory>;

// Returns at least `bytes` bytes, 64-byte aligned. CHECKs that the system has them.
AlignedMemory AllocateAligned(size_t bytes);

}  // namespace stretto::cpu
