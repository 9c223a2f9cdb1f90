// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/devices_command.h"

#include "absl/strings/str_format.h"
#include "worker/engine/exec/plugin/loader.h"

namespace stretto {
namespace {

absl::Status PrintDevices(std::ostream& out) {
  const absl::StatusOr<const BackendPlugin*> plugin = LoadPlugin(CudaPluginOptions());
  if (!plugin.ok()) return plugin.status();
  const absl::StatusOr<std::vector<DeviceInfo>> devices = (*plugin)->devices();
  if (!devices.ok()) return devices.status();
  absl::Status status;
  for (const DeviceInfo& device : *devices) {
    out << absl::StrFormat("%d  %s  %s  capability %d.%d  %d SMs  %.1f GiB\n", device.index,
                           device.name, device.uuid, device.capability_major,
                           device.capability_minor, device.compute_units,
                           static_cast<double>(device.memory_bytes) / (1 << 30));
    status.Update(CheckArchitecture(device, (*plugin)->architectures));
  }
  return status;
}

}  // namespace

int DevicesCommand(const std::vector<std::string>& arguments, std::ostream& out,
                   std::ostream& err) {
  constexpr char kUsage[] = "usage: stretto-bench devices\n";
  if (!arguments.empty()) {
    const bool help = arguments[0] == "--help" || arguments[0] == "-h";
    (help ? out : err) << kUsage;
    return help ? 0 : 2;
  }
  const absl::Status status = PrintDevices(out);
  if (!status.ok()) err << "error: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace stretto
