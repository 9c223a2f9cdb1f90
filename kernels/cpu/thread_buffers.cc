// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_buffers.h"

#include <array>

#include "kernels/cpu/aligned_memory.h"

namespace stretto::cpu {

namespace {

struct Growing {
  AlignedMemory memory;
  size_t size = 0;
};

}  // namespace

void* ThreadBuffer(Buffer use, size_t bytes) {
  thread_local std::array<Growing, static_cast<size_t>(Buffer::kCount)> buffers;
  Growing& buffer = buffers[static_cast<size_t>(use)];
  if (buffer.size < bytes || !buffer.memory) {
    buffer.memory.reset();
    buffer.memory = AllocateAligned(bytes);
    buffer.size = bytes;
  }
  return buffer.memory.get();
}

}  // namespace stretto::cpu
