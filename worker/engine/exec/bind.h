// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns an operation into a call: operands resolved to views once, before the first step.

#include <functional>
#include <vector>

#include "kernels/ops.h"
#include "kernels/tensor_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The kernel call of a compute operation on the given operand views, in the order of the
// operation's in and out.
std::function<void()> BindCompute(const Op& op, std::vector<TensorView> in,
                                  std::vector<TensorView> out, Ops* ops);

// Both operations as one call where Ops has one: a bias_residual and the norm that reads its sum.
// Empty where it has none, or where the second writes what the first reads, as memory that is used
// again may.
std::function<void()> BindPair(const Op& first, const Op& second,
                               const std::vector<TensorView>& first_in,
                               const std::vector<TensorView>& first_out,
                               const std::vector<TensorView>& second_in,
                               const std::vector<TensorView>& second_out, Ops* ops);

}  // namespace stretto
