// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench step`: measures the training of a model on a device.

#include <ostream>
#include <string>
#include <vector>

#include "worker/bench/common/machine.h"

namespace stretto {

// Prints figures to `out`, or the reason of a failure to `err`. Returns the exit code: 0; 1 if the
// model does not fit, a value is not finite or the device fails; 2 if an argument is wrong.
int StepCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                const bench::MachineOpener& open);

}  // namespace stretto
