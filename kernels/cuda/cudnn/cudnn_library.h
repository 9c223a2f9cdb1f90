// SPDX-License-Identifier: Apache-2.0
#pragma once
// libcudnn, opened at run time: a machine may not have it, and attention has kernels of our own.

#include <cudnn_graph.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::cuda {

// The functions of one library, which is never closed. Copies are cheap.
struct CudnnLibrary {
  // `path` is that of the library, or its name for the loader to find. Errors: NotFound (cannot be
  // opened), FailedPrecondition (a function is missing, or its version is not 9.16 or a newer 9.x:
  // older ones need sequences in backward padded to 128).
  static absl::StatusOr<CudnnLibrary> Open(const std::string& path);

  // Returns OK, or the error of a call with the library's message: Unimplemented if it does not
  // support the request, otherwise Unavailable.
  absl::Status StatusOf(cudnnStatus_t status, const char* call) const;

  int64_t version;  // 91900 for 9.19.0

  decltype(&cudnnGetVersion) GetVersion;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnGetLastErrorString) GetLastErrorString;
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor;
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor;
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute;
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute;
  decltype(&cudnnBackendFinalize) BackendFinalize;
  decltype(&cudnnBackendExecute) BackendExecute;
};

// Formats 91900 as "9.19.0".
std::string CudnnVersionText(int64_t version);

}  // namespace stretto::cuda
