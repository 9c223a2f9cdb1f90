// SPDX-License-Identifier: Apache-2.0
#pragma once
// A picture of what no stream reports: asked for again and again.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct LiveView {
  // Asks the coordinator.
  std::function<absl::Status()> look;
  // What was seen last, for a terminal: lines, each ending with a newline.
  std::function<std::string()> picture;
  // Prints the news since the last call, where there is no terminal, or the format is not a table.
  std::function<void()> tell;
};

// Looks every invocation.refresh until Ctrl-C, or `q` on a terminal, which the picture then fills.
// A lost coordinator is waited for as in FollowJob. Errors: those of the first look, later only
// such that would not pass; Unavailable.
absl::Status LookUntilInterrupted(const Invocation& invocation, const LiveView& view);

}  // namespace stretto::cli
