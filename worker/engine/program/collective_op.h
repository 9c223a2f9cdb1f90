// SPDX-License-Identifier: Apache-2.0
#pragma once
// An operation of a step program as the collective that it calls (worker/comm/collective).

#include "kernels/tensor_view.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The call of a collective operation on the memory of its two operands, in their own type.
Collective CollectiveOf(const Op& op, const TensorView& in, const TensorView& out);

// The type in which an operand of `dtype` travels: bf16 for f32 where attribute "wire" says so,
// else its own.
DType WireTypeOf(const Op& op, DType dtype);

// The larger of the operation's two buffers; the only one of what is in place.
const Buffer& WholeTensorOf(const Program& program, const Op& op);

}  // namespace stretto
