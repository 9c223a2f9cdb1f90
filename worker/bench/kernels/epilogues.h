// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures a library's fused epilogues against the calls of a step that they could replace.

#include <vector>

#include "worker/bench/common/machine.h"
#include "worker/bench/kernels/report.h"

namespace stretto::bench {

// Returns the rows that an epilogue could replace, each with its fused time. An epilogue that the
// library lacks is no error. Errors: Unimplemented on a machine without epilogues; the device's.
absl::StatusOr<std::vector<EpilogueResult>> TimeEpilogues(const std::vector<KernelResult>& rows,
                                                          const Machine& machine);

}  // namespace stretto::bench
