// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench step`: what training a model takes on a device.

#include <ostream>
#include <string>
#include <vector>

#include "worker/bench/common/machine.h"

namespace stretto {

// Figures to `out`, the reason of a failure to `err`. Returns the exit code: 0; 1 when the model
// does not fit, a value is not finite or the device fails; 2 when an argument is wrong.
int StepCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                const bench::MachineOpener& open);

}  // namespace stretto
