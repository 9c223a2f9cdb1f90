// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stretto::bench {

// Returns the CPU time of this process so far. What the kernel does for it in interrupts is not in
// it.
double ProcessCpuSeconds();

}  // namespace stretto::bench
