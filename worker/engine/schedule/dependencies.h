// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an order must keep: which operations conflict.

#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

// For every operation those before it that it must stay behind: they touch the same memory, and not
// both only read it. Those that it stays behind through another one may be left out.
IdVector<OpId, std::vector<OpId>> DependenciesOf(const IdVector<OpId, Op>& ops,
                                                 const IdVector<BufferId, Buffer>& buffers);

}  // namespace stretto
