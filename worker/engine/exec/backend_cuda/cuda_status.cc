// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace stretto::cuda {

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // reported here, so the next call must not report it again
  const std::string text =
      absl::StrCat(what, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

}  // namespace stretto::cuda
