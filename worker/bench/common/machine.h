// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine that a benchmark runs on, and what its report must say of it. There is no vendor's
// header here: a GPU is a Backend that comes from a plug-in.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/epilogue.h"
#include "kernels/ops.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/exec/backend.h"

namespace CLI {
class App;
}

namespace stretto::bench {

struct MachineFlags {
  std::string device = "cpu";  // or "cuda"
  int index = 0;               // of the device, as its backend numbers them
  std::string tuning = {};     // folder of measured choices; empty: none is kept
  int collective_sms = 0;      // DeviceOptions::collective_sms
};

// "--device", "--device-index", "--tuning". `flags` must outlive `app`.
void AddMachineFlags(CLI::App& app, MachineFlags& flags);

struct Machine {
  std::string device = {};        // MachineFlags::device
  std::string name = {};          // "NVIDIA H200"; of a CPU what runs its products
  std::string driver = {};        // version of the GPU's; empty: there is none
  std::unique_ptr<Ops> ops = {};  // of the CPU, which its backend borrows; else null
  std::unique_ptr<Backend> backend = {};
  // A link without peers (worker/comm/emulated_link); empty where there is none to be had.
  std::function<absl::StatusOr<std::unique_ptr<DeviceCommunicator>>(const EmulatedLinkOptions&)>
      emulate_link = {};
  // Seconds of a fused product, BackendPlugin::time_epilogue; empty where there are none.
  std::function<absl::StatusOr<double>(const EpilogueProduct&)> time_epilogue = {};
};

// How commands get their machine: OpenMachine, or a test's own.
using MachineOpener = std::function<absl::StatusOr<Machine>(const MachineFlags&)>;

// Errors: those of LoadPlugin, of the plug-in's functions and of CheckArchitecture; Unavailable
// when the CPU lacks instructions that the operations need.
absl::StatusOr<Machine> OpenMachine(const MachineFlags& flags);

// {device, name, driver, backend}. `backend`, its own words, may name what it chose by measuring:
// ask after the run.
nlohmann::ordered_json ToJson(const Machine& machine);

}  // namespace stretto::bench
