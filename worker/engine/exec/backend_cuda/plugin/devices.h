// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPUs that this process may use.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

// Implements BackendPlugin::devices. Makes no context on any device.
absl::StatusOr<std::vector<DeviceInfo>> CudaDevices();

// Selects the device for the calling thread. Errors: Unavailable, naming it.
absl::Status UseDevice(int device);

// Interprets the number of devices, or the error of asking for it. `error` is a cudaError_t;
// versions are CUDA's (12040 for 12.4), and a driver version of 0 means no driver.
absl::Status StatusOfDevices(int error, int count, int driver_version, int runtime_version);

}  // namespace stretto
