// SPDX-License-Identifier: Apache-2.0

// The only symbol of the plug-in.
#include "worker/engine/exec/backend_cuda/plugin/cuda_functions.h"

extern "C" __attribute__((visibility("default"))) const stretto::BackendPlugin*
stretto_backend_plugin() {
  return &stretto::CudaFunctions();
}
