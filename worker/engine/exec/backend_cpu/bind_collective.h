// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a collective of the program into a call of a Communicator, in the type on the wire.

#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/bf16.h"
#include "kernels/tensor_view.h"
#include "worker/comm/communicator.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Memory of one lane for tensors whose type on the wire differs from their own.
struct WireBuffers {
  std::vector<BF16> in, out;
};

// A call of a collective, with what Communicator::RunTelling takes besides.
using CollectiveCall =
    std::function<absl::Status(const Collective* next, absl::FunctionRef<void()> posted)>;

// Returns the call that BindCollective makes, in the type on the wire and without memory.
Collective WireCallOf(const Op& op, TensorView in, TensorView out);

// `communicator` and `wire` are borrowed. wire grows here and never during a call. An f32 tensor
// whose wire type is bf16 is rounded, reduced in f32 and rounded again (comm/communicator.h).
CollectiveCall BindCollective(const Op& op, TensorView in, TensorView out,
                              Communicator* communicator, WireBuffers* wire);

}  // namespace stretto
