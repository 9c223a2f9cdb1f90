// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of stretto-coordinator that bound the jobs that wait.

#include <CLI/CLI.hpp>

#include "coordinator/core/core.h"

namespace stretto::coordinator {

// Parsing writes to `options`, which must live until then.
void AddWaitingFlags(CLI::App& app, CoreOptions& options);

}  // namespace stretto::coordinator
