// SPDX-License-Identifier: Apache-2.0
#pragma once
// One CUDA device as a backend.

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_ops.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"

namespace stretto {

// Links of its executors are by the device. With STRETTO_CUPTI in the environment (1, or the path
// of a libcupti) they check their ledgers, as CudaExecutorOptions::cupti. Errors: the device's.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(CudaExecutorOptions options);

// Matrix products on a stream. `workspace`: kCudaWorkspaceBytes of the device, aligned to 256,
// which the stream's kernels use too: of two calls on one stream the second waits.
using MakeProducts =
    std::function<absl::StatusOr<std::unique_ptr<MatrixProducts>>(void* stream, void* workspace)>;

// Likewise; null where there is none. The device has `sm_count` SMs.
using MakeAttention =
    std::function<std::unique_ptr<FusedAttention>(void* stream, void* workspace, int sm_count)>;

// For CudaExecutorOptions: our kernels, with these products and, where it is given and takes a
// call, this attention.
MakeStreamOps KernelsWith(int device, MakeProducts make_products,
                          MakeAttention make_attention = {});

}  // namespace stretto
