// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors of the CUDA runtime as statuses.

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stretto::cuda {

// Returns OK for cudaSuccess, ResourceExhausted when memory ran out, and otherwise Internal with
// the text "WHAT: NAME: text".
absl::Status ToStatus(cudaError_t error, absl::string_view what);

}  // namespace stretto::cuda

#define RETURN_IF_CUDA_ERROR(call) RETURN_IF_ERROR(::stretto::cuda::ToStatus(call, #call))
