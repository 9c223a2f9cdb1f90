// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the reports of `stretto-bench sim` have in common, and its table of pipelines.

#include <ostream>
#include <string>

#include "worker/bench/options/sim_options.h"

namespace stretto {

// Returns two lines: the model, and how it runs.
std::string SimTitle(const SimOptions& options);

// Simulates and prints the orders at each number of stages, as text or JSON. Returns the exit code
// of the command.
int PrintPipelines(const SimOptions& options, std::ostream& out, std::ostream& err);

}  // namespace stretto
