// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto config ...`: contexts, which are names for clusters. Each function is one command.

#include <string>

#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"
#include "coordinator/cli/client/config.h"

namespace stretto::cli {

// Lists the contexts and marks the current one.
ExitCode ListContexts(const Terminal& terminal, const std::string& path, OutputFormat format);
ExitCode ViewConfig(const Terminal& terminal, const std::string& path, OutputFormat format);
ExitCode UseContext(const Terminal& terminal, const std::string& path, const std::string& name);
// Creates the context, or changes the fields that `cluster` has.
ExitCode SetContext(const Terminal& terminal, const std::string& path, const std::string& name,
                    const Cluster& cluster);
ExitCode DeleteContext(const Terminal& terminal, const std::string& path, const std::string& name);

}  // namespace stretto::cli
