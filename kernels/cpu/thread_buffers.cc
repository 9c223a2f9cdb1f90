#include "kernels/cpu/thread_buffers.h"

#include <array>
#include <cstdlib>
#include <memory>

#include "proto/base/check.h"

namespace stretto::cpu {

namespace {

constexpr size_t kAlignment = 64;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

struct Growing {
  std::unique_ptr<void, Free> memory;
  size_t size = 0;
};

}  // namespace

void* ThreadBuffer(Buffer use, size_t bytes) {
  thread_local std::array<Growing, static_cast<size_t>(Buffer::kCount)> buffers;
  Growing& buffer = buffers[static_cast<size_t>(use)];
  if (buffer.size < bytes || !buffer.memory) {
    const size_t size = (bytes / kAlignment + 1) * kAlignment;
    buffer.memory.reset();
    buffer.memory.reset(std::aligned_alloc(kAlignment, size));
    STRETTO_CHECK(buffer.memory != nullptr);
    buffer.size = size;
  }
  return buffer.memory.get();
}

}  // namespace stretto::cpu
