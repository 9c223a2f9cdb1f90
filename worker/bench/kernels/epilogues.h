// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a library's fused epilogues take beside the calls of a step that they could stand for.

#include <vector>

#include "worker/bench/common/machine.h"
#include "worker/bench/kernels/report.h"

namespace stretto::bench {

// Of the rows, each with its fused time. What the library has not is no error. Errors:
// Unimplemented on a machine without epilogues; the device's.
absl::StatusOr<std::vector<EpilogueResult>> TimeEpilogues(const std::vector<KernelResult>& rows,
                                                          const Machine& machine);

}  // namespace stretto::bench
