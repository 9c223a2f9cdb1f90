// SPDX-License-Identifier: Apache-2.0
#pragma once
// libcudnn, opened at run time: a machine may not have it, and attention has kernels of our own.

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::cuda {

// The library of this process, which is never closed: cuDNN's frontend keeps its functions in
// statics, so all plans of a process are of one library.
struct CudnnLibrary {
  // `path` is that of the library, or its name for the loader to find. Errors: NotFound (cannot be
  // opened), FailedPrecondition (a function is missing; its version is not 9.16 or a newer 9.x;
  // another library is open already).
  static absl::StatusOr<CudnnLibrary> Open(const std::string& path);

  // Makes a handle on the current device whose work runs on `stream`. Errors: Unavailable, with
  // the library's message.
  absl::StatusOr<std::shared_ptr<cudnnContext>> MakeHandle(cudaStream_t stream) const;

  int64_t version;  // 91900 for 9.19.0

  decltype(&cudnnGetVersion) GetVersion;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnSetStream) SetStream;
};

// Formats 91900 as "9.19.0".
std::string CudnnVersionText(int64_t version);

}  // namespace stretto::cuda
