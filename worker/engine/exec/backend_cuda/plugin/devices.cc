// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/plugin/devices.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

std::string Version(int version) {
  return absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
}

// Formats a UUID like NVIDIA's tools.
std::string UuidOf(const cudaUUID_t& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

}  // namespace

absl::Status StatusOfDevices(int error, int count, int driver_version, int runtime_version) {
  if (error == cudaErrorInsufficientDriver && driver_version == 0) {
    return absl::FailedPreconditionError("no NVIDIA driver on this machine");
  }
  if (error == cudaErrorInsufficientDriver) {
    return absl::FailedPreconditionError(
        absl::StrCat("NVIDIA driver: found one for ", Version(driver_version),
                     ", expected one for at least ", Version(runtime_version)));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return absl::NotFoundError(absl::StrCat(
        "no GPU: the NVIDIA driver shows none",
        visible == nullptr ? "" : absl::StrCat(" (CUDA_VISIBLE_DEVICES is '", visible, "')")));
  }
  if (error == cudaSuccess) return absl::OkStatus();
  const auto status = static_cast<cudaError_t>(error);
  return absl::UnavailableError(
      absl::StrCat("NVIDIA driver: ", cudaGetErrorName(status), ": ", cudaGetErrorString(status)));
}

absl::Status UseDevice(int device) {
  const cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("GPU ", device, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

absl::StatusOr<std::vector<DeviceInfo>> CudaDevices() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (absl::Status status = StatusOfDevices(error, count, driver, runtime); !status.ok())
    return status;
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties = {};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, i); failed != cudaSuccess) {
      return absl::UnavailableError(absl::StrCat("GPU ", i, ": ", cudaGetErrorName(failed), ": ",
                                                 cudaGetErrorString(failed)));
    }
    devices.push_back({.index = i,
                       .name = properties.name,
                       .uuid = UuidOf(properties.uuid),
                       .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                       .compute_units = properties.multiProcessorCount,
                       .capability_major = properties.major,
                       .capability_minor = properties.minor});
  }
  return devices;
}

}  // namespace stretto
