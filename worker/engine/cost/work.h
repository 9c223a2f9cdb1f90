// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one operation asks of a machine, from its kind and shapes alone.

#include <cstdint>

#include "worker/engine/program/program.h"

namespace stretto {

// Of a computation; nothing for a collective. Attention counts the causal half of its scores, and
// its gradient five products for the forward's two. An embedding counts the rows it touches, not
// its table; scratch counts as cache.
Work WorkOf(const Program& program, const Op& op);

// Bytes of the larger tensor of a collective, in the type that travels: bf16 where the tensor is or
// attribute "wire" says so, else the tensor's.
int64_t WireBytes(const Program& program, const Op& op);

}  // namespace stretto
