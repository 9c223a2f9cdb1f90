// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names that a cluster has now.

#include <string>
#include <vector>

#include "coordinator/cli/client/client.h"

namespace stretto::cli {

// The newest jobs, at most one page of `most`; none if the coordinator does not answer.
std::vector<std::string> JobNames(Client& client, int most);
// The first workers, likewise.
std::vector<std::string> WorkerNames(Client& client, int most);

}  // namespace stretto::cli
