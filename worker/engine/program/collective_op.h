// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts a collective operation of a step program to the call of a Communicator
// (worker/comm/collective).

#include "kernels/tensor_view.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Returns the collective that `op` calls on the memory of its two operands, in their own type.
Collective CollectiveOf(const Op& op, const TensorView& in, const TensorView& out);

// Returns the type in which an operand of type `dtype` travels: bf16 for an f32 operand whose
// operation has the attribute "wire" set to bf16, otherwise `dtype`.
DType WireTypeOf(const Op& op, DType dtype);

// Returns the larger of the operation's two buffers, which is the whole tensor; both are the same
// for a collective that works in place.
const Buffer& WholeTensorOf(const Program& program, const Op& op);

}  // namespace stretto
