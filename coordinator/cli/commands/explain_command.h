// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto explain`, which needs no coordinator.

#include <string>

#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

struct ExplainOptions {
  std::string path = "job.spec";
  bool recursive = false;
  std::string markdown;  // "job-spec" or "api": that file of docs/reference instead
};

// Prints the documentation of a field. For an unknown path it prints the valid names and returns
// kUsage.
ExitCode Explain(const ExplainOptions& options, const Terminal& terminal, OutputFormat format);

}  // namespace stretto::cli
