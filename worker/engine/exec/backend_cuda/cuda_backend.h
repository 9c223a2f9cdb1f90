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

// Makes a backend whose executors communicate by the device. With STRETTO_CUPTI in the environment
// (1, or the path of a libcupti) they check their ledgers (CudaExecutorOptions::cupti). Errors:
// those of the device.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(CudaExecutorOptions options);

// Makes matrix products on a stream. `workspace` has kCudaWorkspaceBytes on the device, aligned to
// 256, and the stream's kernels use it too, which is safe because calls on one stream run in order.
using MakeProducts =
    std::function<absl::StatusOr<std::unique_ptr<MatrixProducts>>(void* stream, void* workspace)>;

// Makes fused attention, likewise; null where there is none. The device has `sm_count` SMs.
using MakeAttention =
    std::function<std::unique_ptr<FusedAttention>(void* stream, void* workspace, int sm_count)>;

// Returns our kernels for CudaExecutorOptions, with these products and with this attention where it
// is given and supports a call.
MakeStreamOps KernelsWith(int device, MakeProducts make_products,
                          MakeAttention make_attention = {});

}  // namespace stretto
