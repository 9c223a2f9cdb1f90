// SPDX-License-Identifier: Apache-2.0
#pragma once
// libcudnn, opened at run time: a machine may have none, and attention has kernels of our own.

#include <cudnn_graph.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::cuda {

// The functions of one library that is never closed. Copies are cheap.
struct CudnnLibrary {
  // `path`: of the library, or its name for the loader to find. Errors: NotFound (cannot be
  // opened), FailedPrecondition (a function is missing; another version than 9.16 or a newer 9.x:
  // older ones want sequences in backward padded to 128).
  static absl::StatusOr<CudnnLibrary> Open(const std::string& path);

  // OK, or what the call returned in the library's words: Unimplemented where it does not support
  // what was asked, else Unavailable.
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

// "9.19.0" of 91900.
std::string CudnnVersionText(int64_t version);

}  // namespace stretto::cuda
