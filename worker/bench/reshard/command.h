// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench reshard`.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Returns the exit code: 0; 1 a run failed, or a receiver has wrong elements; 2 arguments. Rank 0
// prints one JSON object to `out` and a table to `err`.
int ReshardCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace stretto
