// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench replicas`: measures how replicas add up their gradients.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Prints figures to `out` (rank 0) and a table to `err`, or the reason of a failure. Returns the
// exit code: 0; 1 if a variant fails parity or a peer is lost; 2 if an argument is wrong.
int ReplicasCommand(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err);

}  // namespace stretto
