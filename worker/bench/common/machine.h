// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine that a benchmark runs on, and its description for reports. No vendor's header is used
// here: a GPU is a Backend that a plug-in provides.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "worker/bench/options/machine_flags.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/exec/backend.h"

namespace stretto::bench {

struct Machine {
  std::string device = {};        // MachineFlags::device
  std::string name = {};          // "NVIDIA H200"; for a CPU, the library of its products
  std::string driver = {};        // version of the GPU's driver; empty on a CPU
  std::unique_ptr<Ops> ops = {};  // of the CPU, borrowed by its backend; else null
  std::unique_ptr<Backend> backend = {};
  // A link without peers (worker/comm/emulated_link); empty if the machine cannot emulate one.
  std::function<absl::StatusOr<std::unique_ptr<DeviceCommunicator>>(const EmulatedLinkOptions&)>
      emulate_link = {};
};

// Opens the machine of a command: OpenMachine, or a test's substitute.
using MachineOpener = std::function<absl::StatusOr<Machine>(const MachineFlags&)>;

// Errors: those of LoadPlugin, of the plug-in's functions and of CheckArchitecture; Unavailable if
// the CPU lacks instructions that the operations need.
absl::StatusOr<Machine> OpenMachine(const MachineFlags& flags);

// Returns the kind of this machine's CPU, which costs are of: "cpu, ", the instructions of its
// products, and the model. Errors: those of OpenMachine.
absl::StatusOr<std::string> CpuKind();

// Errors: InvalidArgument, if the costs are not of this kind of CPU; those of CpuKind.
absl::Status ExpectThisCpu(const CostProfile& costs);

// {device, name, driver, backend}. `backend` is the backend's own description, which may name
// choices that it measured, so call this after the run.
nlohmann::ordered_json ToJson(const Machine& machine);

}  // namespace stretto::bench
