// SPDX-License-Identifier: Apache-2.0
#pragma once
// The work of one operation, from its kind and shapes alone.

#include <cstdint>

#include "worker/engine/program/program.h"

namespace stretto {

// Returns the work of a computation, and none for a collective. Attention counts the causal half of
// its scores, and its gradient counts five products where forward counts two. An embedding counts
// the rows that it touches, not its table; scratch counts as cache.
Work WorkOf(const Program& program, const Op& op);

// Returns the bytes of the larger tensor of a collective in the type on the wire: bf16 where the
// tensor is bf16 or the attribute "wire" requests it, otherwise the tensor's type.
int64_t WireBytes(const Program& program, const Op& op);

}  // namespace stretto
