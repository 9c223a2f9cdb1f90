// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names that exist, for completion.

#include <string>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/cli/help/complete.h"

namespace stretto::cli {

// Jobs (JOB), workers (WORKER) or contexts (CONTEXT) of the cluster that `given` and the
// environment name. None when the cluster, or the config, does not answer at once: completion keeps
// silent.
std::vector<std::string> ClusterNames(const ValueKind& kind, const GivenFlags& given,
                                      const AppEnvironment& environment);

}  // namespace stretto::cli
