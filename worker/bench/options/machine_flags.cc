// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/machine_flags.h"

#include <CLI/CLI.hpp>

#include "worker/bench/options/flags.h"

namespace stretto::bench {

void AddMachineFlags(CLI::App& app, MachineFlags& flags) {
  const std::string group = "Machine";
  app.add_option("--device", flags.device, "device: cpu or cuda")
      ->check(OneOf({"cpu", "cuda"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--device-index", flags.index,
                 "index of the GPU in the output of `stretto-bench devices`")
      ->check(Integer(0, 1 << 10))
      ->capture_default_str()
      ->group(group);
  app.add_option("--tuning", flags.tuning,
                 "folder for measured choices of algorithms (default: none)")
      ->group(group);
  app.add_option("--collective-sms", flags.collective_sms,
                 "number of SMs that kernels leave free for concurrent collectives")
      ->check(Integer(0, 1 << 10))
      ->capture_default_str()
      ->group(group);
}

}  // namespace stretto::bench
