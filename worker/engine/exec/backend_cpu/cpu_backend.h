// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cores and the memory of this machine as a backend.

#include <memory>

#include "worker/engine/exec/backend.h"

namespace stretto {

class Ops;

// Makes the backend. `ops` is borrowed and shared by all executors. Links use host memory.
std::unique_ptr<Backend> MakeCpuBackend(Ops& ops);

}  // namespace stretto
