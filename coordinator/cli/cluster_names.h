// SPDX-License-Identifier: Apache-2.0
#pragma once
// Existing names, for completion.

#include <string>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/cli/help/complete.h"

namespace stretto::cli {

// Returns jobs (JOB), workers (WORKER) or contexts (CONTEXT) of the cluster that `given` and the
// environment name. Returns nothing if the cluster or the config does not answer at once:
// completion prints no errors.
std::vector<std::string> ClusterNames(const ValueKind& kind, const GivenFlags& given,
                                      const AppEnvironment& environment);

}  // namespace stretto::cli
