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

}  // namespace stretto
