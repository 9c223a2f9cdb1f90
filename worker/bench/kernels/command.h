// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench kernels`: what every operation of a step reaches on a device, against what the
// device's memory and its products reach in the same run (docs/BENCHMARKS.md, "The kernels
// benchmark").

#include <ostream>
#include <string>
#include <vector>

#include "worker/bench/common/machine.h"

namespace stretto {

// A table to `out`, the reason of a failure to `err`. Returns the exit code: 0; 1 when the device
// or an operation fails; 2 when an argument is wrong.
int KernelsCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open);

}  // namespace stretto
