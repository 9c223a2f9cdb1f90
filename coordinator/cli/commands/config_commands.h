// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto config ...`: contexts are names for clusters. Each function is one command.

#include <string>

#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"
#include "coordinator/cli/client/config.h"

namespace stretto::cli {

// The config file, its current context marked.
ExitCode ListContexts(const Terminal& terminal, const std::string& path, OutputFormat format);
ExitCode ViewConfig(const Terminal& terminal, const std::string& path, OutputFormat format);
ExitCode UseContext(const Terminal& terminal, const std::string& path, const std::string& name);
// Makes the context, or changes what `cluster` has of it.
ExitCode SetContext(const Terminal& terminal, const std::string& path, const std::string& name,
                    const Cluster& cluster);
ExitCode DeleteContext(const Terminal& terminal, const std::string& path, const std::string& name);

}  // namespace stretto::cli
