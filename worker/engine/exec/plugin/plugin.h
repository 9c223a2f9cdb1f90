// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface of a backend that is opened at run time, so that one build of the programs runs
// with and without the libraries of a vendor.

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
  // The folder that keeps measured choices of algorithms between runs (kernels/cuda/tuning). Empty:
  // they are not kept.
  std::string tuning_folder = {};
  // The folder that contains it and in which others write too, so that what is under it is opened
  // beneath it. Empty: tuning_folder is the caller's alone.
  std::string tuning_root = {};
  int64_t tokens = 4096;  // of a whole micro-batch, for which algorithms are chosen
  // The number of SMs that kernels leave free while a collective may be in progress; 0: none.
  int collective_sms = 0;
  bool graphs = true;                          // replay units as graphs
  bool repeatable = false;                     // results have the same bits in every run
  absl::Duration timeout = absl::Minutes(30);  // of a step, on the device
};

// The view of one rank of one group on one lane.
struct DeviceGroupOptions {
  int device = 0;
  int rank = 0;
  int size = 1;
  Store* store = nullptr;  // borrowed during the call
  // The number of blocks (one SM each) that a collective may use; 0: the library chooses.
  int max_blocks = 0;
  std::string prefix = {};  // of its keys in the store; unique per group, lane and attempt
  absl::Duration timeout = absl::Minutes(2);
};

struct BackendPlugin {
  // BuildIdentity() of the plug-in. It is the first member in every version, and nothing else may
  // be read before it has been compared.
  const char* identity;
  // The compute capabilities that the plug-in has code for: STRETTO_CUDA_ARCHITECTURES with commas,
  // "80,90a".
  const char* architectures;
  // Lists the devices in the backend's order. Errors: NotFound (no device), FailedPrecondition (the
  // driver is missing or too old), Unavailable (with the message of the driver).
  absl::StatusOr<std::vector<DeviceInfo>> (*devices)();
  // Makes a backend. Errors: FailedPrecondition (no code for the device), NotFound (no such
  // device), those of the device.
  absl::StatusOr<std::unique_ptr<Backend>> (*make_backend)(const DeviceOptions& options);
  // Connects to a group. Errors: those of NcclCommunicator::Connect (worker/comm/nccl).
  absl::StatusOr<std::unique_ptr<DeviceCommunicator>> (*connect)(const DeviceGroupOptions& options);
  // Makes a link without peers (worker/comm/emulated_link). Errors: those of MakeEmulatedLink and
  // of the device.
  absl::StatusOr<std::unique_ptr<DeviceCommunicator>> (*emulate_link)(
      int device, const EmulatedLinkOptions& options);
};

// The only symbol of a plug-in: const BackendPlugin* stretto_backend_plugin(). The table lives as
// long as the process.
inline constexpr char kPluginSymbol[] = "stretto_backend_plugin";
using PluginFunction = const BackendPlugin* (*)();

// Identifies this build: version, compiler, and a digest of the headers that both sides compile.
const char* BuildIdentity();

}  // namespace stretto
