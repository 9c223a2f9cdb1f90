// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench kernels`: measures the throughput of every operation of a step on a device and
// compares it with a copy and a product in the same run (docs/BENCHMARKS.md, "The kernels
// benchmark").

#include <ostream>
#include <string>
#include <vector>

#include "worker/bench/common/machine.h"

namespace stretto {

// Prints a table to `out`, or the reason of a failure to `err`. Returns the exit code: 0; 1 if the
// device or an operation fails; 2 if an argument is wrong.
int KernelsCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open);

}  // namespace stretto
