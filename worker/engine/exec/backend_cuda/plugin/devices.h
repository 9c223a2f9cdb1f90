// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPUs that this process may use.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

// As BackendPlugin::devices. Makes no context on any device.
absl::StatusOr<std::vector<DeviceInfo>> CudaDevices();

// Makes the device that of the calling thread. Errors: Unavailable, naming it.
absl::Status UseDevice(int device);

// What the number of devices, or the error of asking for it, means. `error` is a cudaError_t;
// versions are CUDA's (12040 for 12.4), driver 0: none.
absl::Status StatusOfDevices(int error, int count, int driver_version, int runtime_version);

}  // namespace stretto
