// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a collective of the program into a call of a Communicator, in the type that travels.

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "kernels/bf16.h"
#include "kernels/tensor_view.h"
#include "worker/comm/communicator.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Memory of one lane for tensors that travel in another type than they have.
struct WireBuffers {
  std::vector<BF16> in, out;
};

// `communicator` and `wire` are borrowed; wire grows here, never in a call. An f32 tensor whose
// wire type is bf16 is rounded, reduced in f32 and rounded once more (comm/communicator.h).
std::function<absl::Status()> BindCollective(const Op& op, TensorView in, TensorView out,
                                             Communicator* communicator, WireBuffers* wire);

}  // namespace stretto
