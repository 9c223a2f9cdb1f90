// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/machine.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_ops.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/exec/plugin/loader.h"

namespace stretto::bench {
namespace {

absl::StatusOr<Machine> OpenCpu() {
  std::string why;
  if (!CpuSupported(&why)) return absl::UnavailableError(why);
  Machine machine{.device = "cpu", .name = CpuIsa(), .driver = "", .ops = MakeCpuOps()};
  machine.backend = MakeCpuBackend(*machine.ops);
  return machine;
}

// The version of the kernel module; empty if it reports none.
std::string DriverVersion() {
  const absl::StatusOr<std::string> text = ReadFile("/sys/module/nvidia/version");
  return text.ok() ? std::string(absl::StripSuffix(*text, "\n")) : "";
}

absl::StatusOr<Machine> OpenCuda(const MachineFlags& flags) {
  ASSIGN_OR_RETURN(const BackendPlugin* plugin, LoadPlugin(CudaPluginOptions()));
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, plugin->devices());
  for (const DeviceInfo& device : devices) {
    if (device.index != flags.index) continue;
    RETURN_IF_ERROR(CheckArchitecture(device, plugin->architectures));
    Machine machine{.device = "cuda", .name = device.name, .driver = DriverVersion()};
    ASSIGN_OR_RETURN(machine.backend,
                     plugin->make_backend({.device = device.index,
                                           .tuning_folder = flags.tuning,
                                           .tokens = flags.tokens,
                                           .collective_sms = flags.collective_sms}));
    machine.emulate_link = [plugin, index = device.index](const EmulatedLinkOptions& options) {
      return plugin->emulate_link(index, options);
    };
    return machine;
  }
  return absl::NotFoundError(absl::StrCat("--device-index: found ", flags.index,
                                          ", expected one of the ", devices.size(),
                                          " that `stretto-bench devices` lists"));
}

}  // namespace

absl::StatusOr<Machine> OpenMachine(const MachineFlags& flags) {
  return flags.device == "cpu" ? OpenCpu() : OpenCuda(flags);
}

absl::StatusOr<std::string> CpuKind() {
  ASSIGN_OR_RETURN(const Machine machine, OpenCpu());
  const absl::StatusOr<std::string> text = ReadFile("/proc/cpuinfo");
  std::string model = "of unknown model";
  for (absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    model = std::string(absl::StripAsciiWhitespace(parts.second));
    break;
  }
  return absl::StrCat("cpu, ", machine.name, ", ", model);
}

absl::Status ExpectThisCpu(const CostProfile& costs) {
  ASSIGN_OR_RETURN(const std::string kind, CpuKind());
  return ExpectMachine(costs, kind);
}

nlohmann::ordered_json ToJson(const Machine& machine) {
  return {{"device", machine.device},
          {"name", machine.name},
          {"driver", machine.driver},
          {"backend", machine.backend->Describe()}};
}

}  // namespace stretto::bench
