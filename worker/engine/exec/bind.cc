// SPDX-License-Identifier: Apache-2.0

// Turns an operation into a call: its attributes become the arguments and its operands the tensors,
// captured in a function that a lane calls in every step. BindPair fuses two neighbours for which
// the kernels have a single call.

#include "worker/engine/exec/bind.h"

#include <cstddef>
#include <utility>

#include "proto/base/check.h"
#include "worker/engine/program/operation_calls.h"
#include "worker/engine/program/operation_rules.h"

namespace stretto {
namespace {

using Views = std::vector<TensorView>;

bool Overlap(const TensorView& a, const TensorView& b) {
  const auto from = [](const TensorView& view) { return static_cast<const std::byte*>(view.data); };
  return from(a) < from(b) + b.bytes() && from(b) < from(a) + a.bytes();
}

}  // namespace

std::function<void()> BindCompute(const Op& op, Views in, Views out, Ops* ops) {
  const OpInfo& info = InfoOf(op.kind);
  STRETTO_CHECK(info.call != nullptr);  // a collective has none
  return info.call(ViewOperands(op, std::move(in), std::move(out)), ops);
}

std::function<void()> BindPair(const Op& first, const Op& second,
                               const std::vector<TensorView>& first_in,
                               const std::vector<TensorView>& first_out,
                               const std::vector<TensorView>& second_in,
                               const std::vector<TensorView>& second_out, Ops* ops) {
  const bool layer_norm = second.kind == OpKind::kLayerNorm;
  if (first.kind != OpKind::kBiasResidual || (!layer_norm && second.kind != OpKind::kRmsNorm) ||
      second.in.empty() || second.in[0] != first.out[0])
    return {};
  // The fused call may write all outputs before it has read all inputs.
  for (const TensorView& written : second_out) {
    for (const TensorView& read : first_in) {
      if (Overlap(written, read)) return {};
    }
  }
  const ViewOperands residual(first, first_in, first_out), norm(second, second_in, second_out);
  const auto call = [&](auto method, auto... of_norm) -> std::function<void()> {
    return [=, r = Argument(residual, "r"), bias = Argument(residual, "bias"),
            x = Argument(residual, "x"), drop = DropoutOf(residual.attributes()),
            keys = Argument(residual, "keys"), sum = Argument(residual, "y")] {
      (ops->*method)(r, bias, x, drop, keys, sum, of_norm...);
    };
  };
  const float epsilon = Real("~epsilon", kNormEpsilon)(norm.attributes());
  const TensorView w = Argument(norm, "w"), y = Argument(norm, "y");
  return layer_norm ? call(&Ops::BiasResidualLayerNorm, w, Argument(norm, "b"), epsilon, y,
                           Argument(norm, "stats"))
                    : call(&Ops::BiasResidualRmsNorm, w, epsilon, y, Argument(norm, "rstd"));
}

}  // namespace stretto
