// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto explain`: needs no coordinator.

#include <string>

#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

struct ExplainOptions {
  std::string path = "job.spec";
  bool recursive = false;
  std::string markdown;  // "job-spec" or "api": that file of docs/reference instead
};

// Prints the documentation of a field. A path that is none: kUsage, with the names there are.
ExitCode Explain(const ExplainOptions& options, const Terminal& terminal, OutputFormat format);

}  // namespace stretto::cli
