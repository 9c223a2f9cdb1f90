// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench pipeline`.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Returns the exit code: 0; 1 a run failed, or an order is not bitwise equal to its oracle; 2
// arguments. Rank 0 prints one JSON object to `out` and a table to `err`.
int PipelineCommand(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err);

}  // namespace stretto
