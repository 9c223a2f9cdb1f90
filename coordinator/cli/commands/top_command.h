// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto top`.

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// Shows the cluster, and again every two seconds until it is interrupted. Once with `once`, without
// a terminal, and as JSON or YAML.
ExitCode Top(const Invocation& invocation, bool once);

}  // namespace stretto::cli
