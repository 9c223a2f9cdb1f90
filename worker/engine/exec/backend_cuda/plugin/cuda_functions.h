// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of the plug-in (worker/engine/exec/plugin/plugin.h has the contracts).

#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

// Lives as long as the process.
const BackendPlugin& CudaFunctions();

}  // namespace stretto
