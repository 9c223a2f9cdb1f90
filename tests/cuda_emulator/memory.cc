// SPDX-License-Identifier: Apache-2.0

// Memory of the device and pinned memory of the host, and what may be copied between them.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/state.h"

namespace cuda_emulator {
namespace {

constexpr size_t kAll = size_t{64} << 30;

struct Allocation {
  size_t bytes;
  bool device;
};

struct Memory {
  std::map<uintptr_t, Allocation> allocations;
  size_t used = 0, limit = kAll;
};

Memory& memory() {
  static auto* memory = new Memory;
  return *memory;
}

// Whether the range may be that of an asynchronous copy's `device` or pinned side.
bool Holds(const void* at, size_t bytes, bool device) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  auto next = memory().allocations.upper_bound(address);
  if (next == memory().allocations.begin()) return false;
  const auto& [begin, allocation] = *std::prev(next);
  return allocation.device == device && address + bytes <= begin + allocation.bytes;
}

bool TouchesDevice(const void* at) { return Holds(at, 1, true); }

cudaError_t Allocate(void** at, size_t bytes, bool device) {
  if (const cudaError_t error = Sticky(); error != cudaSuccess) return error;
  Memory& m = memory();
  if (device && bytes > m.limit - std::min(m.limit, m.used)) return cudaErrorMemoryAllocation;
  const size_t padded = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  *at = std::aligned_alloc(256, padded);
  if (*at == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*at, 0xff, padded);
  m.allocations[reinterpret_cast<uintptr_t>(*at)] = {bytes, device};
  if (device) m.used += bytes;
  return cudaSuccess;
}

cudaError_t Free(void* at, bool device) {
  if (at == nullptr) return cudaSuccess;
  Memory& m = memory();
  const auto found = m.allocations.find(reinterpret_cast<uintptr_t>(at));
  if (found == m.allocations.end() || found->second.device != device) return cudaErrorInvalidValue;
  if (device) m.used -= found->second.bytes;
  m.allocations.erase(found);
  std::free(at);
  return cudaSuccess;
}

bool Allowed(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind, bool pinned) {
  const auto host = [&](const void* at) {
    return pinned ? Holds(at, bytes, false) : !TouchesDevice(at);
  };
  if (bytes == 0) return true;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return host(to) && host(from);
    case cudaMemcpyHostToDevice:
      return Holds(to, bytes, true) && host(from);
    case cudaMemcpyDeviceToHost:
      return host(to) && Holds(from, bytes, true);
    case cudaMemcpyDeviceToDevice:
      return Holds(to, bytes, true) && Holds(from, bytes, true);
  }
  return false;
}

}  // namespace

void SetMemory(size_t bytes) { memory().limit = bytes; }
void ResetMemory() { memory().limit = kAll; }
int AllocationsLeft() { return static_cast<int>(memory().allocations.size()); }

}  // namespace cuda_emulator

cudaError_t cudaMalloc(void** at, size_t bytes) { return cuda_emulator::Allocate(at, bytes, true); }
cudaError_t cudaFree(void* at) {
  cudaDeviceSynchronize();
  return cuda_emulator::Free(at, true);
}
cudaError_t cudaMallocHost(void** at, size_t bytes) {
  return cuda_emulator::Allocate(at, bytes, false);
}
cudaError_t cudaFreeHost(void* at) { return cuda_emulator::Free(at, false); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto& m = cuda_emulator::memory();
  *total = m.limit;
  *free = m.limit - std::min(m.limit, m.used);
  return cuda_emulator::Sticky();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *properties = {"emulated", 4, cuda_emulator::memory().limit};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (!cuda_emulator::Allowed(to, from, bytes, kind, false)) return cudaErrorInvalidValue;
  if (const cudaError_t error = cudaStreamSynchronize(nullptr); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (kind != cudaMemcpyHostToDevice || cuda_emulator::Holds(from, bytes, false)) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  }
  // The call returns when the bytes are staged.
  const auto* first = static_cast<const std::byte*>(from);
  cuda_emulator::Task task;
  task.work = [to, staged = std::vector<std::byte>(first, first + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  };
  cuda_emulator::Append(cuda_emulator::NullStream(), std::move(task));
  return cuda_emulator::Sticky();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!cuda_emulator::Allowed(to, from, bytes, kind, true)) return cudaErrorInvalidValue;
  return cuda_emulator::Enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  if (bytes > 0 && !cuda_emulator::Holds(at, bytes, true)) return cudaErrorInvalidValue;
  cuda_emulator::Task task;
  task.work = [=] {
    if (bytes > 0) std::memset(at, value, bytes);
  };
  cuda_emulator::Append(cuda_emulator::NullStream(), std::move(task));
  return cuda_emulator::Sticky();
}

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return cuda_emulator::Enqueue(stream, [=] { std::memset(at, value, bytes); });
}
