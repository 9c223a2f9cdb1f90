// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench calibrate`: measures the costs of what another command is to measure.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Rank 0 writes the file of costs. Progress and errors go to `err`, help to `out`. Returns the exit
// code: 0; 1 if a run failed; 2 if an argument is wrong; 3 if repeats do not settle. No file is
// written unless it is 0.
int CalibrateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                     std::ostream& err);

}  // namespace stretto
