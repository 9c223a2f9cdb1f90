// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench overlap`: measures the schedules on this machine and its link.

#include <ostream>
#include <string>
#include <vector>

#include "worker/bench/common/machine.h"

namespace stretto {

// Rank 0 prints the JSON to `out`; progress and errors go to `err`. Returns the exit code: 0; 1 if
// a run failed, a schedule failed parity, or a measured time is impossible; 2 if an argument is
// wrong.
int OverlapCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open);

}  // namespace stretto
