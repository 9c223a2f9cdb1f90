// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that show recorded steps: trace and timeline.

#include <cstdint>
#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct TraceOptions {
  std::string name;
  std::string steps;  // "A:B", "A:", ":B" or "A"; empty: the newest 10
  int64_t step = 0;   // of a timeline; 0: PlainStep
  int rank = -1;      // < 0: all
  std::string file;   // of a trace; "-": standard output; empty: NAME-trace.json
  std::string svg;    // of a timeline; empty: none
};

// Writes a Chrome trace. The file appears only when it is complete.
ExitCode JobTrace(const Invocation& invocation, const TraceOptions& options);

// Draws a step and prints its ledger. In JSON and YAML it prints the ledgers that the ranks
// reported.
ExitCode JobTimeline(const Invocation& invocation, const TraceOptions& options);

}  // namespace stretto::cli
