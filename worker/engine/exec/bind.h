// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns an operation into a call, with operands resolved to views once, before the first step.

#include <functional>
#include <vector>

#include "kernels/ops.h"
#include "kernels/tensor_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Returns the kernel call of a compute operation on the given operands, in the order of the
// operation's in and out.
std::function<void()> BindCompute(const Op& op, std::vector<TensorView> in,
                                  std::vector<TensorView> out, Ops* ops);

// Whether Ops has a single call for both operations: a bias_residual and the norm that reads its
// sum, or the gradients of a norm's input and of its weights. Operands are compared by their
// buffers.
bool ArePair(const Op& first, const Op& second);

// Returns the single call of a pair. Returns an empty function where the operations are none, or
// where the second operation writes what the first reads, which memory reuse can cause.
std::function<void()> BindPair(const Op& first, const Op& second,
                               const std::vector<TensorView>& first_in,
                               const std::vector<TensorView>& first_out,
                               const std::vector<TensorView>& second_in,
                               const std::vector<TensorView>& second_out, Ops* ops);

}  // namespace stretto
