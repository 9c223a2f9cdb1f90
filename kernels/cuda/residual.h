// SPDX-License-Identifier: Apache-2.0
#pragma once
// x + dropout(r + bias) of a row that a block holds: the result of BiasResidual, and the input of a
// norm that is fused with it.

#include "kernels/cuda/draws.h"
#include "kernels/cuda/rows.h"

namespace stretto::cuda {

template <class F>
struct ResidualOperands {
  typename F::In r, bias, x;  // bias.data may be null
  Drops drops;
  typename F::Out y;
};

// Keeps the keys in registers while the block walks over rows.
template <class F, bool kDrop>
class ResidualRow {
 public:
  using T = typename F::T;
  using Operands = ResidualOperands<F>;

  __device__ explicit ResidualRow(const Operands& operands)
      : operands_(operands), draws_(operands.drops) {}

  // Computes the row, writes it and returns it.
  __device__ __forceinline__ HeldRow<F> operator()(int64_t row) const {
    constexpr bool kLate = kLoadsLate<F> && sizeof(T) == 4;  // 16-bit elements fit as they are
    HeldRow<F> r;
    if constexpr (!kLate) r = Hold<F>(operands_.r, row);
    HeldRow<F> y = Hold<F>(operands_.x, row);
    for (int i = 0; i < F::kPacks; ++i) {
      const int column = HeldColumn<F>(i);
      float factors[kPack<T>];
      if constexpr (kDrop) draws_.Factors(row, column, factors);
      const bool with_bias = operands_.bias.data != nullptr;
      const Pack<T> bias = with_bias ? operands_.bias.Load(0, column) : Pack<T>{};
      if constexpr (kLate) r.at[i] = HeldPack<T>::Of(operands_.r.Load(row, column));
      Pack<T> out;
      for (int k = 0; k < kPack<T>; ++k) {
        const float value = r.at[i][k] + ToFloat(bias.at[k]);
        out.at[k] = Round<T>(kDrop ? fmaf(value, factors[k], y.at[i][k]) : y.at[i][k] + value);
      }
      operands_.y.Store(row, column, out);
      y.at[i] = HeldPack<T>::Of(out);
    }
    return y;
  }

 private:
  const Operands& operands_;
  const Draws draws_;
};

template <class F>
ResidualOperands<F> ResidualOperandsOf(TensorView r, TensorView bias, TensorView x,
                                       const Dropout& dropout, TensorView keys, TensorView y) {
  STRETTO_CHECK(r.dtype == x.dtype && r.dtype == y.dtype);
  STRETTO_CHECK(bias.data == nullptr || (bias.dtype == x.dtype && bias.count() == x.columns()));
  STRETTO_CHECK(r.count() == x.count() && y.count() == x.count());
  using In = typename F::In;
  const int64_t columns = x.columns();
  return {.r = BlockedAs<In>(r, columns),
          .bias = PlainAs<In>(bias, columns),
          .x = PlainAs<In>(x, columns),
          .drops = DropsOf(dropout, keys),
          .y = PlainAs<typename F::Out>(y, columns)};
}

template <class Row>
struct RowType {
  using Type = Row;
};

// Calls body(Form, RowType<ResidualRow>, Spread) for a block that holds a row of the operands.
template <class Body>
void WithResidualRow(int64_t columns, const Dropout& dropout,
                     std::initializer_list<TensorView> operands, Body body) {
  WithHeldForm(columns, operands, [&](auto form, const Spread& spread) {
    using F = decltype(form);
    if (dropout.on()) {
      body(form, RowType<ResidualRow<F, true>>{}, spread);
    } else {
      body(form, RowType<ResidualRow<F, false>>{}, spread);
    }
  });
}

}  // namespace stretto::cuda
