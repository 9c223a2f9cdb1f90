// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that show recorded steps: trace, timeline.

#include <cstdint>
#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct TraceOptions {
  std::string name;
  std::string steps;  // "A:B", "A:", ":B" or "A"; empty: the newest 10
  int64_t step = 0;   // of a timeline; 0: the newest
  int rank = -1;      // < 0: all
  std::string file;   // of a trace; "-": standard output; empty: NAME-trace.json
  std::string svg;    // of a timeline; empty: none
};

// Writes a Chrome trace. A file appears when it is whole.
ExitCode JobTrace(const Invocation& invocation, const TraceOptions& options);

// Draws a step and prints what its time was counted as. In JSON and YAML: the ledgers, as the ranks
// reported them.
ExitCode JobTimeline(const Invocation& invocation, const TraceOptions& options);

}  // namespace stretto::cli
