#pragma once
// What a backend exports that is opened at run time, so that one build of the programs runs with
// and without the libraries of a vendor.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto {

struct DeviceInfo {
  int index = 0;  // as the backend numbers it
  std::string name = {};
  std::string uuid = {};
  int64_t memory_bytes = 0;
  int compute_units = 0;                           // SMs
  int capability_major = 0, capability_minor = 0;  // CUDA compute capability
};

struct BackendPlugin {
  // BuildIdentity() of the plug-in. The first member in every version: nothing else is read before
  // it was compared.
  const char* identity;
  // Compute capabilities that it has code for, STRETTO_CUDA_ARCHITECTURES with commas: "80,90a".
  const char* architectures;
  // In the backend's order. Errors: NotFound (no device), FailedPrecondition (the driver is missing
  // or too old), Unavailable (the driver's words).
  absl::StatusOr<std::vector<DeviceInfo>> (*devices)();
  // Here goes the function that makes the Backend (worker/engine/exec/backend.h).
};

// The one symbol of a plug-in: const BackendPlugin* stretto_backend_plugin(). The table lives as
// long as the process.
inline constexpr char kPluginSymbol[] = "stretto_backend_plugin";
using PluginFunction = const BackendPlugin* (*)();

// Of this build: version, compiler, and a digest of the headers that both sides compile.
const char* BuildIdentity();

}  // namespace stretto
