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

// The result of BiasResidual and the norm that reads it.
std::function<void()> ResidualAndNorm(OpKind kind, const ViewOperands& residual,
                                      const ViewOperands& norm, Ops* ops) {
  const auto call = [&](auto method, auto... of_norm) -> std::function<void()> {
    return [=, r = Argument(residual, "r"), bias = Argument(residual, "bias"),
            x = Argument(residual, "x"), drop = DropoutOf(residual.attributes()),
            keys = Argument(residual, "keys"), sum = Argument(residual, "y")] {
      (ops->*method)(r, bias, x, drop, keys, sum, of_norm...);
    };
  };
  const float epsilon = Real("~epsilon", kNormEpsilon)(norm.attributes());
  const TensorView w = Argument(norm, "w"), y = Argument(norm, "y");
  return kind == OpKind::kLayerNorm
             ? call(&Ops::BiasResidualLayerNorm, w, Argument(norm, "b"), epsilon, y,
                    Argument(norm, "stats"))
             : call(&Ops::BiasResidualRmsNorm, w, epsilon, y, Argument(norm, "rstd"));
}

// The gradients of a norm's input and of its weights.
std::function<void()> GradientsOfNorm(OpKind kind, const ViewOperands& dgrad,
                                      const ViewOperands& wgrad, Ops* ops) {
  const TensorView dy = Argument(dgrad, "dy"), x = Argument(dgrad, "x"), w = Argument(dgrad, "w"),
                   residual = Argument(dgrad, "residual"), dx = Argument(dgrad, "dx"),
                   dw = Argument(wgrad, "dw");
  if (kind == OpKind::kRmsNormWgrad) {
    return [=, rstd = Argument(dgrad, "rstd")] {
      ops->RmsNormGrads(dy, x, w, rstd, residual, dx, dw);
    };
  }
  return [=, stats = Argument(dgrad, "stats"), db = Argument(wgrad, "db")] {
    ops->LayerNormGrads(dy, x, w, stats, residual, dx, dw, db);
  };
}

}  // namespace

std::function<void()> BindCompute(const Op& op, Views in, Views out, Ops* ops) {
  const OpInfo& info = InfoOf(op.kind);
  STRETTO_CHECK(info.call != nullptr);  // a collective has none
  return info.call(ViewOperands(op, std::move(in), std::move(out)), ops);
}

bool ArePair(const Op& first, const Op& second) {
  const auto are_gradients = [&](OpKind dgrad, OpKind wgrad) {
    // dgrad reads dy, x, w and the statistics, wgrad dy, x and the statistics.
    return first.kind == dgrad && second.kind == wgrad && second.in[0] == first.in[0] &&
           second.in[1] == first.in[1] && second.in[2] == first.in[3];
  };
  if (are_gradients(OpKind::kLayerNormDgrad, OpKind::kLayerNormWgrad) ||
      are_gradients(OpKind::kRmsNormDgrad, OpKind::kRmsNormWgrad))
    return true;
  const bool norm = second.kind == OpKind::kLayerNorm || second.kind == OpKind::kRmsNorm;
  return first.kind == OpKind::kBiasResidual && norm && second.in[0] == first.out[0];
}

std::function<void()> BindPair(const Op& first, const Op& second,
                               const std::vector<TensorView>& first_in,
                               const std::vector<TensorView>& first_out,
                               const std::vector<TensorView>& second_in,
                               const std::vector<TensorView>& second_out, Ops* ops) {
  if (!ArePair(first, second)) return {};
  // The fused call may write all outputs before it has read all inputs.
  for (const TensorView& written : second_out) {
    for (const TensorView& read : first_in) {
      if (Overlap(written, read)) return {};
    }
  }
  const ViewOperands a(first, first_in, first_out), b(second, second_in, second_out);
  return first.kind == OpKind::kBiasResidual ? ResidualAndNorm(second.kind, a, b, ops)
                                             : GradientsOfNorm(second.kind, a, b, ops);
}

}  // namespace stretto
