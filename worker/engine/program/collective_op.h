// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts a collective operation of a step program to the call of a Communicator
// (worker/comm/collective).

#include <string>

#include "kernels/tensor_view.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/program/program.h"

namespace stretto {

// What a collective brings and what it gets: the same buffer where it works in place or is one end
// of a transfer, which has one operand.
BufferId BroughtBy(const Op& op);
BufferId ReceivedBy(const Op& op);

// Returns the words by which members of a group recognise that they call the same collective:
// kind, tag, attributes, type and count, such as "all_reduce L0.proj fwd mb0 s0 1 f32 64". The two
// ends of a transfer have the same words.
std::string CallOf(const Program& program, const Op& op);

// Returns the collective that `op` calls on the memory of its two operands, in their own type.
Collective CollectiveOf(const Op& op, const TensorView& in, const TensorView& out);

// Returns the type in which an operand of type `dtype` travels: bf16 for an f32 operand whose
// operation has the attribute "wire" set to bf16, otherwise `dtype`.
DType WireTypeOf(const Op& op, DType dtype);

// Returns the larger of the operation's two buffers, which is the whole tensor; both are the same
// for a collective that works in place.
const Buffer& WholeTensorOf(const Program& program, const Op& op);

}  // namespace stretto
