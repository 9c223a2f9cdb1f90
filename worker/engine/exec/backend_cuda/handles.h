// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owners of handles of the CUDA runtime. Errors of destruction are ignored, because they repeat an
// earlier error.

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "absl/status/statusor.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"

namespace stretto::cuda {

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    (void)Destroy(handle);
  }
};

template <class Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter<Destroy>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceMemory = Owned<void*, cudaFree>;
using PinnedMemory = Owned<void*, cudaFreeHost>;

// Makes a stream that does not synchronize with the null stream.
inline absl::StatusOr<Stream> MakeStream(int priority) {
  cudaStream_t stream = nullptr;
  RETURN_IF_CUDA_ERROR(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return Stream(stream);
}

inline absl::StatusOr<Event> MakeEvent(bool timing) {
  cudaEvent_t event = nullptr;
  RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, timing ? 0 : cudaEventDisableTiming));
  return Event(event);
}

inline absl::StatusOr<DeviceMemory> MakeDeviceMemory(size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

inline absl::StatusOr<PinnedMemory> MakePinnedMemory(size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(cudaMallocHost(&memory, bytes));
  return PinnedMemory(memory);
}

}  // namespace stretto::cuda
