// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a backend exports that is opened at run time, so that one build of the programs runs with
// and without the libraries of a vendor.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stretto {

class Backend;
class DeviceCommunicator;
class Store;
struct EmulatedLinkOptions;
struct EpilogueProduct;

struct DeviceInfo {
  int index = 0;  // as the backend numbers it
  std::string name = {};
  std::string uuid = {};
  int64_t memory_bytes = 0;
  int compute_units = 0;                           // SMs
  int capability_major = 0, capability_minor = 0;  // CUDA compute capability
};

struct DeviceOptions {
  int device = 0;  // DeviceInfo::index
  // Where measured choices of algorithms are kept between runs (kernels/cuda/tuning); empty:
  // nowhere.
  std::string tuning_folder = {};
  // Room that kernels leave, in SMs, while a collective may be under way; 0: none.
  int collective_sms = 0;
  bool graphs = true;                          // replay units as graphs
  absl::Duration timeout = absl::Minutes(30);  // of a step, on the device
};

// One rank's view of one group on one lane.
struct DeviceGroupOptions {
  int device = 0;
  int rank = 0;
  int size = 1;
  Store* store = nullptr;  // borrowed during the call
  // How many blocks (each takes an SM) a collective may use; 0: the library's own choice.
  int max_blocks = 0;
  std::string prefix = {};  // of its keys; one per group, lane and attempt
  absl::Duration timeout = absl::Minutes(2);
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
  // Errors: FailedPrecondition (no code for the device), NotFound (no such device), the device's.
  absl::StatusOr<std::unique_ptr<Backend>> (*make_backend)(const DeviceOptions& options);
  // Errors: those of NcclCommunicator::Connect (worker/comm/nccl).
  absl::StatusOr<std::unique_ptr<DeviceCommunicator>> (*connect)(const DeviceGroupOptions& options);
  // A link without peers (worker/comm/emulated_link). Errors: those of MakeEmulatedLink, the
  // device's.
  absl::StatusOr<std::unique_ptr<DeviceCommunicator>> (*emulate_link)(
      int device, const EmulatedLinkOptions& options);
  // For benchmarks. Errors: those of TimeEpilogue (kernels/cuda/cublaslt_epilogues.h), the
  // device's.
  absl::StatusOr<double> (*time_epilogue)(int device, const EpilogueProduct& product);
};

// The one symbol of a plug-in: const BackendPlugin* stretto_backend_plugin(). The table lives as
// long as the process.
inline constexpr char kPluginSymbol[] = "stretto_backend_plugin";
using PluginFunction = const BackendPlugin* (*)();

// Of this build: version, compiler, and a digest of the headers that both sides compile.
const char* BuildIdentity();

}  // namespace stretto
